# Write OUTPUT: the SHA-256 of each of FILES below FOLDER, in the format of sha256sum.
set(lines "")
foreach(file IN LISTS FILES)
  file(SHA256 "${FOLDER}/${file}" sum)
  string(APPEND lines "${sum}  ${file}\n")
endforeach()
file(WRITE "${OUTPUT}" "${lines}")
