/* The XML of S3's replies: what is taken, what is refused. */
#include "xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "name=text;" for each element without children, then "." when whole or "!" when not. */
static void assert_read(const char *document, const char *expected)
{
    char seen[4096] = "";
    size_t size = 0;
    struct xml_reader reader;
    enum xml_event event;
    xml_reader_init(&reader, base_bytes_of_str(base_str_of(document)));
    while ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE) {
        struct lake_str text = xml_text(&reader);
        if (event == XML_CLOSE && reader.leaf)
            size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%.*s=%.*s;",
                                     LAKE_STR_FMT(reader.name), LAKE_STR_FMT(text));
    }
    (void)snprintf(seen + size, sizeof(seen) - size, "%s", event == XML_END ? "." : "!");
    assert_string_equal(seen, expected);
    xml_reader_fini(&reader);
}

static void elements_give_their_text(void **state)
{
    (void)state;
    assert_read("<?xml version=\"1.0\"?>\n<a xmlns='x>y'><b>1</b> <c/><d x=\"/\"> 2 </d></a>\n",
                "b=1;c=;d= 2 ;.");
    assert_read("<s3:a><s3:b>x</s3:b></s3:a>", "b=x;.");
    assert_read("<a>x<!-- <b> -->y<![CDATA[<&>]]>z</a >", "a=xy<&>z;.");
    assert_read("<a>text<b>1</b>more</a>", "b=1;.");
}

static void references_become_characters(void **state)
{
    (void)state;
    assert_read("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xE9;&#x1F916;</a>",
                "a=<>&\"'AB\xC3\xA9\xF0\x9F\xA4\x96;.");
    assert_read("<a>&nbsp;</a>", "!");
    assert_read("<a>&#xD800;</a>", "!");
    assert_read("<a>&#0;</a>", "!");
    assert_read("<a>&#x110000;</a>", "!");
    assert_read("<a>&amp</a>", "!");
}

static void what_is_cut_short_or_malformed_is_bad(void **state)
{
    (void)state;
    static const char whole[] = "<a><b>1</b><c>2</c></a>";
    for (size_t size = 0; size < sizeof(whole) - 1; size++) {
        struct xml_reader reader;
        enum xml_event event;
        xml_reader_init(&reader, (struct lake_bytes){(const uint8_t *)whole, size});
        while ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE) {
        }
        assert_int_equal(event, XML_BAD);
        xml_reader_fini(&reader);
    }
    assert_read("", "!");
    assert_read("   ", "!");
    assert_read("x<a></a>", "!");
    assert_read("<a></b>", "!");
    assert_read("<a></a><b></b>", "a=;!");
    assert_read("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "!");
    assert_read("<a <b></b></a>", "!");
    assert_read("<></>", "!");
    assert_read("</a>", "!");
}

static void depth_and_text_are_bounded(void **state)
{
    (void)state;
    char document[1024] = "";
    for (int i = 0; i < XML_MAX_DEPTH; i++)
        (void)strncat(document, "<a>", sizeof(document) - strlen(document) - 1);
    for (int i = 0; i < XML_MAX_DEPTH; i++)
        (void)strncat(document, "</a>", sizeof(document) - strlen(document) - 1);
    assert_read(document, "a=;.");
    char deeper[1100];
    (void)snprintf(deeper, sizeof(deeper), "<a>%s</a>", document);
    assert_read(deeper, "!");

    for (size_t size = XML_MAX_TEXT_BYTES; size <= XML_MAX_TEXT_BYTES + 1; size++) {
        char *text = malloc(size + 8);
        assert_non_null(text);
        memcpy(text, "<a>", 3);
        memset(text + 3, 'x', size);
        memcpy(text + 3 + size, "</a>", 5);
        struct xml_reader reader;
        xml_reader_init(&reader, base_bytes_of_str(base_str_of(text)));
        assert_int_equal(xml_next(&reader), XML_OPEN);
        bool fits = size == XML_MAX_TEXT_BYTES;
        assert_int_equal(xml_next(&reader), fits ? XML_CLOSE : XML_BAD);
        assert_false(reader.no_memory);
        xml_reader_fini(&reader);
        free(text);
    }
}

static void want_of_memory_is_told_apart(void **state)
{
    (void)state;
    struct xml_reader reader;
    xml_reader_init(&reader, base_bytes_of_str(LAKE_STR("<a>x</a>")));
    base_fault_fail_nth_alloc(1);
    assert_int_equal(xml_next(&reader), XML_OPEN);
    assert_int_equal(xml_next(&reader), XML_BAD);
    base_fault_fail_nth_alloc(0);
    assert_true(reader.no_memory);
    xml_reader_fini(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_give_their_text),
        cmocka_unit_test(references_become_characters),
        cmocka_unit_test(what_is_cut_short_or_malformed_is_bad),
        cmocka_unit_test(depth_and_text_are_bounded),
        cmocka_unit_test(want_of_memory_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
