"""The texts beside a figure, in short sentences, each fact once."""
