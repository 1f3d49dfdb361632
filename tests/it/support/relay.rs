//! A TCP relay between the program and a server that misbehaves when told to.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to bytes and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    Pass,
    /// They are held back, and delivered when they may pass again.
    Pause,
    /// They disappear, without a word and for good: a connection that lost some never works again.
    BlackHole,
    /// There are no connections, and nobody listens.
    Refuse,
}

const MODES: [Mode; 4] = [Mode::Pass, Mode::Pause, Mode::BlackHole, Mode::Refuse];

pub struct Relay {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    mode: AtomicU8,
    delay_us: AtomicU64,
    ended: AtomicBool,
    accepted: AtomicUsize,
    pairs: Mutex<Vec<Arc<Pair>>>,
}

/// A connection from the program and the one to the server that belongs to it.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    closed: AtomicBool,
    holed: AtomicBool,
}

impl Pair {
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn mode(&self) -> Mode {
        if self.ended.load(Ordering::SeqCst) {
            return Mode::Refuse;
        }
        MODES[usize::from(self.mode.load(Ordering::SeqCst))]
    }
}

impl Relay {
    /// Relays to this port of this machine.
    pub fn to(server: u16) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&accepting, listener, port, server));
        Relay { port, shared }
    }

    pub fn set(&self, mode: Mode) {
        let number = MODES.iter().position(|known| *known == mode).expect("one of them");
        self.shared.mode.store(number as u8, Ordering::SeqCst);
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    /// Bytes of either direction arrive this much later.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay_us.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// Closes every connection.
    pub fn cut(&self) {
        for pair in self.shared.pairs.lock().expect("no panic").drain(..) {
            pair.close();
        }
    }

    /// Closes the oldest connection.
    pub fn cut_one(&self) {
        let mut pairs = self.shared.pairs.lock().expect("no panic");
        pairs.retain(|pair| !pair.closed.load(Ordering::SeqCst));
        if !pairs.is_empty() {
            pairs.remove(0).close();
        }
    }

    /// Connections that neither side has closed.
    pub fn open(&self) -> usize {
        let mut pairs = self.shared.pairs.lock().expect("no panic");
        pairs.retain(|pair| !pair.closed.load(Ordering::SeqCst));
        pairs.len()
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.cut();
    }
}

fn accept(shared: &Arc<Shared>, listener: TcpListener, port: u16, server: u16) {
    let mut listener = Some(listener);
    while !shared.ended.load(Ordering::SeqCst) {
        if shared.mode() == Mode::Refuse {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(("127.0.0.1", port)).ok();
        }
        if let Some(listener) = &listener {
            listener.set_nonblocking(true).expect("a setting of the socket");
            while let Ok((client, _)) = listener.accept() {
                // The server may be the one that is gone.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    relay(shared, client, server);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn relay(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    for stream in [&client, &server] {
        stream.set_nonblocking(false).expect("a setting of the socket");
        stream.set_nodelay(true).expect("a setting of the socket");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a setting of the socket");
    }
    let pair = Arc::new(Pair { client, server, closed: AtomicBool::default(), holed: AtomicBool::default() });
    shared.accepted.fetch_add(1, Ordering::SeqCst);
    shared.pairs.lock().expect("no panic").push(pair.clone());
    if shared.mode() == Mode::Refuse {
        pair.close();
    }
    for upwards in [true, false] {
        let (shared, pair) = (shared.clone(), pair.clone());
        std::thread::spawn(move || {
            let (from, to) =
                if upwards { (&pair.client, &pair.server) } else { (&pair.server, &pair.client) };
            pump(&shared, &pair, from, to);
            pair.close();
        });
    }
}

fn pump(shared: &Shared, pair: &Pair, mut from: &TcpStream, mut to: &TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let length = match from.read(&mut bytes) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if pair.closed.load(Ordering::SeqCst) {
                    return;
                }
                continue;
            }
            Err(_) => return,
        };
        while shared.mode() == Mode::Pause && !pair.closed.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if shared.mode() == Mode::BlackHole {
            pair.holed.store(true, Ordering::SeqCst);
        }
        if pair.holed.load(Ordering::SeqCst) {
            continue;
        }
        std::thread::sleep(Duration::from_micros(shared.delay_us.load(Ordering::SeqCst)));
        if to.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
}
