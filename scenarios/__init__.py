"""The bundled scenario files, importable so that `pytest --pyargs` finds them in a wheel."""
