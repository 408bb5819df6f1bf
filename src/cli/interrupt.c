/* Ctrl-C and its like while an object travels: the transfer is given up, and tidied up after. */
#include "cli_internal.h"

#include <signal.h>

static volatile sig_atomic_t seen;

static void note(int number)
{
    seen = number;
}

void cli_interrupt_watch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    /* A second one ends the process at once, wherever it is. */
    const struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | SA_RESETHAND};
    for (size_t i = 0; i < BASE_ARRAY_LEN(numbers); i++) {
        struct sigaction before;
        if (seen == 0 && sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    }
}

bool cli_interrupt_seen(void)
{
    return seen != 0;
}

int cli_interrupt_end(int code)
{
    if (seen != 0 && code != CLI_EXIT_OK) {
        (void)signal(seen, SIG_DFL);
        (void)raise(seen);
    }
    return code;
}
