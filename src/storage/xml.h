/*
 * The part of XML in which S3 answers: elements, text, references, CDATA; comments, processing
 * instructions and attributes are passed over, document types are refused.
 */
#ifndef STORAGE_XML_H
#define STORAGE_XML_H

#include <base/base.h>

#define XML_MAX_DEPTH      16
#define XML_MAX_TEXT_BYTES ((size_t)64 * 1024) /* of one element */

enum xml_event {
    XML_OPEN,  /* `name` */
    XML_CLOSE, /* `name`; of an element without children also its `text` */
    XML_END,   /* the document is whole */
    XML_BAD    /* not well-formed, cut short, or past a limit */
};

struct xml_reader {
    struct base_cursor input;
    struct lake_str name;    /* without a namespace prefix; into the input */
    struct base_buffer text; /* since the last XML_OPEN */
    struct lake_str open[XML_MAX_DEPTH];
    size_t depth;
    bool leaf;       /* no child so far */
    bool close_next; /* after <a/> */
    bool closed;     /* the last event was XML_CLOSE */
    bool ended;      /* the root element was closed */
    bool no_memory;  /* why it is XML_BAD */
};

/* Borrows `document`. */
void xml_reader_init(struct xml_reader *reader, struct lake_bytes document);
void xml_reader_fini(struct xml_reader *reader);
enum xml_event xml_next(struct xml_reader *reader);
/* After XML_CLOSE. */
struct lake_str xml_text(const struct xml_reader *reader);

#endif
