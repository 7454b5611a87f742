//! The C interface, as compilers, linkers and programs see it.
mod header;
mod kit;
mod programs;
