/* empty.c - keeps a module without sources yet a library. */
typedef int empty_translation_unit;
