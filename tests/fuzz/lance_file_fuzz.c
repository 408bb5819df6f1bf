/* libs: lance */
/* A whole data file: footer, column metadata, and its first columns as every kind of column. */
#include "lance_fuzz.h"

#define MAX_COLUMNS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lake_error err = {0};
    struct lance_file *file = NULL;
    fuzz_set_up(data, size);
    if (lance_file_open(fuzz_store, LAKE_STR("data/f.lance"), 0, &file, &err) != LAKE_OK)
        return 0;
    for (uint32_t i = 0; i < lance_file_column_count(file) && i < MAX_COLUMNS; i++)
        for (size_t k = 0; k < fuzz_schema.field_count; k++)
            (void)fuzz_read_field(file, &fuzz_schema.fields[k], i, k % 2 == 0);
    lance_file_unref(file);
    return 0;
}
