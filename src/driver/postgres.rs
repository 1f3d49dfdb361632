//! To be written.
use super::*;
/// x
pub struct Postgres;
/// x
pub struct PostgresSession;
impl Driver for Postgres {
    const KINDS: &'static [Kind] = &[Kind{names:&["postgres"],about:"",default_address:"",options:&[]}];
    const BLOCKING: bool = true;
    type Session = PostgresSession;
    fn open(_t: &Target) -> Result<Self, TargetError> { Ok(Self) }
    async fn prepare(&self, _t: &TableSpec, _p: Preparation) -> Result<ServerInfo, TargetError> { unimplemented!() }
    async fn connect(&self, _t: &TableSpec, _s: u32) -> Result<PostgresSession, TargetError> { unimplemented!() }
}
impl Session for PostgresSession {
    async fn read<R: Rows>(&mut self, _op: &Op<'_>, _rows: &mut R) -> Outcome { unimplemented!() }
    async fn update(&mut self, _op: &Op<'_>) -> Outcome { unimplemented!() }
    async fn insert(&mut self, _op: &Op<'_>) -> Outcome { unimplemented!() }
    async fn scan<R: Rows>(&mut self, _op: &Op<'_>, _rows: &mut R) -> Outcome { unimplemented!() }
    async fn delete(&mut self, _op: &Op<'_>) -> Outcome { unimplemented!() }
}
