"""The models of the studies, as data that every framework builds: layers, networks made of them, first weights."""
