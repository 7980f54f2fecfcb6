/* The signal that ends a rank: dying.c. */
#pragma once

void dying_watch(void);
void dying_forget(void);
