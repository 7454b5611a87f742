//! The formats, against files that LevelDB and earlier versions wrote.
mod damage;
mod frozen;
mod golden;
