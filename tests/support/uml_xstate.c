/* Preloaded into User-Mode Linux 6.1, which asks ptrace for 2,696 bytes of extended registers: on CPUs that have more
 * of them (AMX) the kernel refuses, and the guest panics. Here each such request gets a buffer of the CPU's real size.
 *
 * The C library's ptrace is replaced as a whole, so its own rule holds here too: a PEEK request returns the word.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PEEK_FIRST = 1, PEEK_LAST = 3, GET_REGISTERS = 0x4204, SET_REGISTERS = 0x4205 };
enum { LEGACY_AREA = 512, LARGEST = 1 << 16 };
/* The components that lie within what UML knows of: all but the AMX tiles, which come last. */
static const uint64_t KNOWN_COMPONENTS = 0x2ff;

static size_t xstate_bytes(void) {
    unsigned eax, enabled, ecx_supported, edx;
    __cpuid_count(0xd, 0, eax, enabled, ecx_supported, edx);
    return enabled > ecx_supported ? enabled : ecx_supported;
}

static long extended_registers(int request, int pid, struct iovec *asked) {
    static char buffer[LARGEST];
    struct iovec whole = {buffer, xstate_bytes()};
    size_t bytes = asked->iov_len < whole.iov_len ? asked->iov_len : whole.iov_len;
    if (request == SET_REGISTERS) {
        memset(buffer, 0, whole.iov_len);
        memcpy(buffer, asked->iov_base, bytes);
        if (bytes < whole.iov_len) {
            uint64_t components;
            memcpy(&components, buffer + LEGACY_AREA, sizeof components);
            components &= KNOWN_COMPONENTS;
            memcpy(buffer + LEGACY_AREA, &components, sizeof components);
        }
    }
    long result = syscall(SYS_ptrace, request, pid, (long)NT_X86_XSTATE, &whole);
    if (result == 0 && request == GET_REGISTERS)
        memcpy(asked->iov_base, buffer, bytes);
    return result;
}

long ptrace(int request, ...) {
    va_list arguments;
    va_start(arguments, request);
    int pid = va_arg(arguments, int);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);
    if ((request == GET_REGISTERS || request == SET_REGISTERS) && (long)address == NT_X86_XSTATE)
        return extended_registers(request, pid, data);
    if (request >= PEEK_FIRST && request <= PEEK_LAST) {
        long word;
        if (syscall(SYS_ptrace, request, pid, address, &word) < 0)
            return -1;
        errno = 0;
        return word;
    }
    return syscall(SYS_ptrace, request, pid, address, data);
}
