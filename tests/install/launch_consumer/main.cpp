#include <accelerate/base/text.h>

#include <cstdio>

int main() { std::puts(accelerate::format_bytes(1536).c_str()); }
