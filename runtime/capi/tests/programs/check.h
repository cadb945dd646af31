/* What the programs of the tests check with. They are C and C++. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udo.h"

#define CHECK(claim)                                                        \
    do {                                                                    \
        if (!(claim)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);     \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* The call is done. */
static inline void done(const char *call, int line, udo_error_t *error) {
    if (error != NULL) {
        fprintf(stderr, "line %d: %s: %s\n", line, call, udo_error_message(error));
        exit(1);
    }
}

/* The call is refused with this code, and says these words. */
static inline void refused(const char *call, int line, udo_error_t *error, uint32_t code, const char *words) {
    if (udo_error_code(error) != code || strstr(udo_error_message(error), words) == NULL) {
        fprintf(stderr, "line %d: %s: code %u, wanted %u: \"%s\", wanted \"%s\"\n", line, call,
                (unsigned)udo_error_code(error), (unsigned)code, udo_error_message(error), words);
        exit(1);
    }
    udo_error_release(error);
}

/* Options that say nothing. */
static inline udo_runtime_options_t default_runtime_options(void) {
    udo_runtime_options_t options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

#define DONE(call) done(#call, __LINE__, call)
#define REFUSED(call, code, words) refused(#call, __LINE__, call, code, words)

#endif
