# Write OUTPUT: a hash of the file HASHES and of SETTINGS (compiler, flags, library).
file(READ "${HASHES}" sources)
string(SHA256 sum "${SETTINGS}${sources}")
string(SUBSTRING "${sum}" 0 16 number)
file(WRITE "${OUTPUT}" "#define BUILD UINT64_C(0x${number})\n")
