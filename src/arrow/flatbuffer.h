/* The generated readers and builders of Arrow's metadata, from nanoarrow's sources. */
#ifndef ARROW_FLATBUFFER_H
#define ARROW_FLATBUFFER_H

/* A system header to the compiler: its warnings are not ours. */
#include <nanoarrow/ipc/flatcc_generated.h>

#define FB(name) org_apache_arrow_flatbuf_##name

/* Starts a Message of version 5; the caller adds a header, a body length and ends it. */
static inline bool fb_message_start(flatcc_builder_t *b)
{
    return FB(Message_start_as_root)(b) == 0 &&
           FB(Message_version_add)(b, FB(MetadataVersion_V5)) == 0;
}

#endif
