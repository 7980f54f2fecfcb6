/* An algorithm with its parameters: variant.c. */
#pragma once

const char *variant_label(const char *text);
