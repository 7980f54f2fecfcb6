/* Bind these functions to the versions that every glibc since 2.17 has, because clusters are old. A
 * newer glibc would bind new versions (2.33 and 2.34 moved the functions into libc.so). */
#pragma once
#include <features.h> /* says whether this is glibc */

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#if defined(__x86_64__)
#define OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5");
#else
#define OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.17");
#endif
OLD(dlsym)
OLD(dlopen)
OLD(dlclose)
OLD(dladdr)
OLD(pthread_create)
OLD(pthread_join)
OLD(pthread_key_create)
OLD(pthread_once)
OLD(pthread_setspecific)
#undef OLD
#endif
