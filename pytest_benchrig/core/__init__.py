"""Pure core: no pytest, no network, no process, no clock."""
