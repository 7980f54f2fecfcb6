# Write OUTPUT: a hash of all FILES below FOLDER and of SETTINGS (compiler, flags, library).
set(all "${SETTINGS}")
foreach(file IN LISTS FILES)
  file(SHA256 "${FOLDER}/${file}" sum)
  string(APPEND all "${file} ${sum}\n")
endforeach()
string(SHA256 sum "${all}")
string(SUBSTRING "${sum}" 0 16 number)
file(WRITE "${OUTPUT}" "#define BUILD UINT64_C(0x${number})\n")
