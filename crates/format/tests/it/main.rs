//! Tests of the formats, with files that LevelDB and earlier versions of Terrace wrote.
mod damage;
mod frozen;
mod golden;
