/* The checksums that S3 keeps beside an object, and base64, in which it speaks of them. */
#ifndef STORAGE_CHECKSUM_H
#define STORAGE_CHECKSUM_H

#include <base/base.h>

/* Both take the value so far, 0 at the start. Castagnoli's polynomial, and NVMe's of 64 bits. */
uint32_t checksum_crc32c(uint32_t crc, struct lake_bytes data);
uint64_t checksum_crc64nvme(uint64_t crc, struct lake_bytes data);
/* What any CPU can do; the tests compare. */
uint32_t checksum_crc32c_portable(uint32_t crc, struct lake_bytes data);

#define CHECKSUM_BASE64_BYTES 13 /* of at most 8 bytes, with the NUL */
/* Big-endian, as in x-amz-checksum-crc32c and x-amz-checksum-crc64nvme. */
void checksum_crc32c_text(uint32_t crc, char out[CHECKSUM_BASE64_BYTES]);
void checksum_crc64nvme_text(uint64_t crc, char out[CHECKSUM_BASE64_BYTES]);

#endif
