# Our headers carry plain comments. Doxygen reads a copy in which they are its own: "// .." above a thing becomes "/// ..",
# behind a thing "///< ..", and characters that mean something to Doxygen are escaped inside them.
# The text at the top is about the file.
1{
/^\/\/ /i\/// \\file
}
/^#/b
\|//|!b
# A comment line, or the text behind code: split at the first "//" that a blank or the line's begin precedes.
s|^\( *\)//\( .*\)\{0,1\}$|\1\n///\2|
t comment
s|^\(.*[^ /]\) *// \(.*\)$|\1 \n///< \2|
t comment
b
:comment
h
s|^[^\n]*\n||
s|\\|\\\\|g
s|[@#$%]|\\&|g
s|<\([^ ]\)|\\<\1|g
s|^///\\< |///< |
s|\([^<]\)>|\1\\>|g
s|&|\\\&|g
s|\.\.|\\.\\.|g
x
s|\n.*||
G
s|\n||
# What goes on far to the right belongs to the thing before it.
s|^\( \{24,\}\)/// |\1///< |
