//! To be written.
use super::*;
/// x
pub struct Sqlite;
/// x
pub struct SqliteSession;
impl Driver for Sqlite {
    const KINDS: &'static [Kind] = &[Kind{names:&["sqlite"],about:"",default_address:"",options:&[]}];
    const BLOCKING: bool = true;
    type Session = SqliteSession;
    fn open(_t: &Target) -> Result<Self, TargetError> { Ok(Self) }
    async fn prepare(&self, _t: &TableSpec, _p: Preparation) -> Result<ServerInfo, TargetError> { unimplemented!() }
    async fn connect(&self, _t: &TableSpec, _s: u32) -> Result<SqliteSession, TargetError> { unimplemented!() }
}
impl Session for SqliteSession {
    async fn read<R: Rows>(&mut self, _op: &Op<'_>, _rows: &mut R) -> Outcome { unimplemented!() }
    async fn update(&mut self, _op: &Op<'_>) -> Outcome { unimplemented!() }
    async fn insert(&mut self, _op: &Op<'_>) -> Outcome { unimplemented!() }
    async fn scan<R: Rows>(&mut self, _op: &Op<'_>, _rows: &mut R) -> Outcome { unimplemented!() }
    async fn delete(&mut self, _op: &Op<'_>) -> Outcome { unimplemented!() }
}
