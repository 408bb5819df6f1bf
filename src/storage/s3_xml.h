/* What replies about several things share. */
#ifndef STORAGE_S3_XML_H
#define STORAGE_S3_XML_H

#include "xml.h"

/* %XX and '+' in place; false when it is not percent-encoding. */
bool s3_xml_url_decode(struct base_buffer *text);

#endif
