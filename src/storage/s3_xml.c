#include "s3_xml.h"

bool s3_xml_url_decode(struct base_buffer *text)
{
    size_t out = 0;
    for (size_t i = 0; i < text->size; i++, out++) {
        uint8_t c = text->data[i];
        if (c == '%') {
            uint8_t byte;
            if (text->size - i < 3 ||
                !base_hex_decode((struct lake_str){(const char *)text->data + i + 1, 2}, &byte))
                return false;
            text->data[out] = byte;
            i += 2;
        } else {
            text->data[out] = c == '+' ? ' ' : c;
        }
    }
    text->size = out;
    return true;
}
