"""In: the arguments of the command line.

Out: text in the terminal, files, an exit code.
Open first: `main`; `commands` has a function for each command, `options` what their options mean.
"""
