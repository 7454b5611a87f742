/* The function of Windows' bcryptprimitives.dll that Rust's standard library calls. Older versions
   of wine have no such library. */
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG bytes); /* RtlGenRandom */
__declspec(dllexport) BOOL ProcessPrng(PBYTE buffer, SIZE_T bytes) {
  return SystemFunction036(buffer, (ULONG)bytes);
}
