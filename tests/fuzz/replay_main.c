/* Runs a fuzz target over every file of its corpus: the suite's slice of fuzzing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0;
    size_t room = 0;
    for (;;) {
        if (size == room) {
            room = room == 0 ? 4096 : room * 2;
            uint8_t *grown = realloc(data, room);
            if (grown == NULL)
                abort();
            data = grown;
        }
        size_t got = fread(data + size, 1, room - size, file);
        if (got == 0)
            break;
        size += got;
    }
    fclose(file);
    /* An exact-size copy, so that a sanitizer sees the first byte read past the end. */
    uint8_t *exact = realloc(data, size == 0 ? 1 : size);
    LLVMFuzzerTestOneInput(exact != NULL ? exact : data, size);
    free(exact != NULL ? exact : data);
    return 0;
}

int main(int argc, char **argv)
{
    int failures = 0;
    int replayed = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            fprintf(stderr, "corpus directory %s is missing\n", argv[i]);
            return 1;
        }
        for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
            char path[4096];
            struct stat info;
            snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
                failures += replay_file(path);
                replayed++;
            }
        }
        closedir(dir);
    }
    if (replayed == 0) {
        fprintf(stderr, "the corpus is empty: nothing was tested\n");
        return 1;
    }
    printf("%d inputs replayed\n", replayed);
    return failures != 0;
}
