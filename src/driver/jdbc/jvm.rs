//! The Java side of the driver: one JVM in this process, found and loaded when it is needed, and one
//! `Helper` (Helper.java) for each connection. What it costs: 81 ns for a call, against more than
//! 20 µs for handing the operation to another process or thread.
//!
//! Requests and answers travel in memory that both sides see, a direct `ByteBuffer` that belongs to
//! the helper. This is the one file of the program with `unsafe` in it: for calls by a method's
//! number instead of its name (a look-up would cost more than the call), and for the slice over that
//! memory.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use jni::ids::JMethodID;
use jni::objects::{JByteBuffer, JClass, JClassLoader, JObject};
use jni::refs::Global;
use jni::signature::{Primitive, ReturnType};
use jni::sys::jvalue;
use jni::{Env, InitArgsBuilder, JavaVM, jni_sig, jni_str};

/// Compiled from Helper.java by scripts/helper-class.
const HELPER: &[u8] = include_bytes!("Helper.class");

/// Stops HotSpot from taking SIGINT and SIGTERM, which are ours, and bounds its memory.
pub const DEFAULT_ARGUMENTS: &str = "-Xrs -Xmx512m";

/// What [`Helper::call`] can ask for, by the numbers of Helper.java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Request {
    Connect = 0,
    Prepare = 1,
    Query = 2,
    Update = 3,
    Begin = 4,
    Commit = 5,
    Rollback = 6,
    Close = 7,
    Describe = 8,
    Columns = 9,
    Tables = 10,
    Ask = 11,
    Execute = 12,
    Reserve = 13,
    Batch = 14,
    Collections = 15,
}

const FAILED: i64 = 1 << 32;
const MOVED: i64 = 1 << 33;
const NULL: i32 = -1;
const NUMBER: i32 = -2;

/// A Java virtual machine with the helper's class in it. There can be only one in a process.
struct Machine {
    vm: JavaVM,
    class: Global<JClass<'static>>,
    call: JMethodID,
    buffer: JMethodID,
}

/// Why there is none.
#[derive(Debug, Clone)]
pub enum NoMachine {
    /// No library was found in these places.
    NotFound(String),
    /// It was found, but does not start.
    Broken(PathBuf, String),
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The machine, started with these arguments by the first who needs it.
fn machine(arguments: &str, home: Option<&Path>) -> Result<&'static Machine, NoMachine> {
    static STARTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if let Some(machine) = MACHINE.get() {
        return Ok(machine);
    }
    let _turn = STARTING.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(machine) = MACHINE.get() {
        return Ok(machine);
    }
    let library = library(home)?;
    // On a thread of its own: the thread that starts the machine stays special to it, and its stack
    // is given guard pages.
    let start = || start(arguments, &library);
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    let machine = started.unwrap_or_else(|_| Err("it panicked while starting".to_owned()));
    machine.map(|machine| MACHINE.get_or_init(|| machine)).map_err(|why| NoMachine::Broken(library, why))
}

fn start(arguments: &str, library: &Path) -> Result<Machine, String> {
    let mut builder = InitArgsBuilder::new();
    for argument in DEFAULT_ARGUMENTS.split_whitespace().chain(arguments.split_whitespace()) {
        builder = builder.option(argument);
    }
    let arguments = builder.build().map_err(|error| error.to_string())?;
    let vm = JavaVM::with_libjvm(arguments, || Ok(library)).map_err(|error| {
        let mut words = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        words
    })?;
    let loaded = vm.attach_current_thread(|env: &mut Env<'_>| -> jni::errors::Result<_> {
        let loader = JClassLoader::get_system_class_loader(env)?;
        let class = env.define_class(Some(jni_str!("ycsbtrace/Helper")), &loader, HELPER)?;
        let call = env.get_method_id(&class, jni_str!("call"), jni_sig!("(IIIJ)J"))?;
        let buffer = env.get_method_id(&class, jni_str!("buffer"), jni_sig!("()Ljava/nio/ByteBuffer;"))?;
        Ok((env.new_global_ref(&class)?, call, buffer))
    });
    let (class, call, buffer) = loaded.map_err(|error| error.to_string())?;
    Ok(Machine { vm, class, call, buffer })
}

const LIBRARY: &str = if cfg!(target_os = "macos") { "libjvm.dylib" } else { "libjvm.so" };

/// Finds the machine's library: in the home that is given, in `JAVA_HOME`, beside the `java` on the
/// path, or where Linux distributions keep their Java.
fn library(home: Option<&Path>) -> Result<PathBuf, NoMachine> {
    let within = |home: &Path| {
        // Today's layout, then Java 8's.
        ["lib/server", "jre/lib/server", "lib/amd64/server", "jre/lib/amd64/server"]
            .iter()
            .map(|folder| home.join(folder).join(LIBRARY))
            .find(|file| file.is_file())
    };
    if let Some(home) = home {
        let not_there = || NoMachine::NotFound(format!("{} (jdbc.java_home)", home.display()));
        return within(home).ok_or_else(not_there);
    }
    if let Some(home) = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        let home = PathBuf::from(home);
        let not_there = || NoMachine::NotFound(format!("{} (JAVA_HOME)", home.display()));
        return within(&home).ok_or_else(not_there);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside_java = std::env::split_paths(&path).find_map(|folder| {
        let program = folder.join("java").canonicalize().ok()?;
        within(program.parent()?.parent()?)
    });
    let of_distribution = || {
        let installed = std::fs::read_dir("/usr/lib/jvm").ok()?.flatten();
        let mut found: Vec<_> = installed.filter_map(|entry| within(&entry.path())).collect();
        found.sort();
        found.pop()
    };
    beside_java
        .or_else(of_distribution)
        .ok_or_else(|| NoMachine::NotFound("JAVA_HOME, the folder of java on the PATH, /usr/lib/jvm".to_owned()))
}

/// What its collectors of garbage have done since it began: name, count and milliseconds of each. None of them
/// if there is no machine, or one without its module java.management.
pub fn collections() -> Vec<(String, u64, u64)> {
    if MACHINE.get().is_none() {
        return Vec::new();
    }
    let Ok(mut helper) = Helper::new("", None) else { return Vec::new() };
    helper.begin();
    let Ok(count) = helper.call(Request::Collections, 0, None) else { return Vec::new() };
    let mut answer = helper.answer();
    let mut text = || answer.text().unwrap_or_default().to_owned();
    let mut collector = || (text(), text().parse().unwrap_or(0), text().parse().unwrap_or(0));
    (0..count).map(|_| collector()).collect()
}

/// What Java said about a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Complaint {
    /// The vendor's own number, 0 if there is none.
    pub vendor: i32,
    /// Empty if there is none.
    pub sqlstate: String,
    /// The class of `java.sql` that the exception is one of, without the package.
    pub standard: String,
    /// The exception's own class, and those of its causes, separated by blanks.
    pub classes: String,
    /// All of what was said.
    pub message: String,
    /// The connection cannot be used any more.
    pub closed: bool,
    /// The operation's time was over.
    pub late: bool,
}

/// One connection, used by the thread that opened it.
pub struct Helper {
    machine: &'static Machine,
    object: Global<JObject<'static>>,
    /// The memory of the buffer, fetched again whenever the helper says that it has another.
    memory: *mut u8,
    capacity: usize,
    /// Bytes of the request that is being written.
    written: usize,
    parameters: i32,
}

impl std::fmt::Debug for Helper {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Helper").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Helper {
    /// An object that is not connected yet. Starts the machine, if nobody has.
    pub fn new(arguments: &str, home: Option<&Path>) -> Result<Helper, NoMachine> {
        let machine = machine(arguments, home)?;
        let made = machine.vm.attach_current_thread(|env: &mut Env<'_>| {
            let object = env.new_object(&machine.class, jni_sig!("()V"), &[])?;
            env.new_global_ref(object)
        });
        let object = made.map_err(|error| NoMachine::Broken(PathBuf::from(LIBRARY), error.to_string()))?;
        let mut helper =
            Helper { machine, object, memory: std::ptr::null_mut(), capacity: 0, written: 0, parameters: 0 };
        helper.find_memory().map_err(|error| NoMachine::Broken(PathBuf::from(LIBRARY), error.to_string()))?;
        Ok(helper)
    }

    /// Begins a request; its parameters follow.
    #[inline]
    pub fn begin(&mut self) {
        self.written = 0;
        self.parameters = 0;
    }

    /// A parameter of the request: a text, in UTF-8.
    #[inline]
    pub fn text(&mut self, bytes: &[u8]) {
        self.room(4 + bytes.len());
        self.put(&(bytes.len() as i32).to_ne_bytes());
        self.put(bytes);
        self.parameters += 1;
    }

    /// A parameter of the request: a number.
    #[inline]
    pub fn number(&mut self, number: i32) {
        self.room(8);
        self.put(&NUMBER.to_ne_bytes());
        self.put(&number.to_ne_bytes());
        self.parameters += 1;
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let (begin, end) = (self.written, self.written + bytes.len());
        self.memory_mut()[begin..end].copy_from_slice(bytes);
        self.written = end;
    }

    /// Makes room for `more` bytes of the request.
    #[inline]
    fn room(&mut self, more: usize) {
        if self.capacity - self.written < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let kept = self.memory()[..self.written].to_vec();
        let size = (self.written + more).max(2 * self.capacity);
        let parameters = self.parameters;
        // On failure the room stays too small, and the slice's bounds stop the program: 2 GB of
        // parameters for one statement, or no memory for them.
        let _ = self.invoke(Request::Reserve, size.min(i32::MAX as usize) as i32, None);
        self.memory_mut()[..kept.len()].copy_from_slice(&kept);
        self.parameters = parameters;
    }

    /// Sends the request; `number` is what Helper.java says it is, mostly the statement's. The
    /// answer is a count; what else there is to tell is in [`Helper::answer`].
    #[inline]
    pub fn call(&mut self, request: Request, number: i32, left: Option<Duration>) -> Result<u32, Box<Complaint>> {
        match self.invoke(request, number, left) {
            Ok(answer) if answer & FAILED == 0 => Ok(answer as u32),
            Ok(_) => Err(Box::new(self.complaint())),
            Err(error) => Err(Box::new(Complaint {
                classes: "jni".to_owned(),
                message: error.to_string(),
                closed: true,
                ..Complaint::default()
            })),
        }
    }

    #[inline]
    fn invoke(&mut self, request: Request, number: i32, left: Option<Duration>) -> jni::errors::Result<i64> {
        let left = left.map_or(0, |left| (left.as_nanos() as i64).max(1));
        let arguments =
            [jvalue { i: request as i32 }, jvalue { i: number }, jvalue { i: self.parameters }, jvalue { j: left }];
        let Machine { vm, call, .. } = self.machine;
        let answer = vm.attach_current_thread(|env: &mut Env<'_>| {
            // SAFETY: `call` is `long call(int, int, int, long)` of the class that `object` is of.
            let answer = unsafe {
                env.call_method_unchecked(&self.object, call, ReturnType::Primitive(Primitive::Long), &arguments)
            };
            answer?.j()
        })?;
        if answer & MOVED != 0 {
            self.find_memory()?;
        }
        Ok(answer)
    }

    /// Asks where the buffer is.
    #[cold]
    fn find_memory(&mut self) -> jni::errors::Result<()> {
        let Machine { vm, buffer, .. } = self.machine;
        let (memory, capacity) = vm.attach_current_thread(|env: &mut Env<'_>| {
            // SAFETY: `buffer` is `ByteBuffer buffer()` of the class that `object` is of.
            let object = unsafe { env.call_method_unchecked(&self.object, buffer, ReturnType::Object, &[]) };
            let buffer = env.cast_local::<JByteBuffer<'_>>(object?.l()?)?;
            jni::errors::Result::Ok((env.get_direct_buffer_address(&buffer)?, env.get_direct_buffer_capacity(&buffer)?))
        })?;
        self.memory = memory;
        self.capacity = capacity;
        Ok(())
    }

    #[inline]
    fn memory(&self) -> &[u8] {
        // SAFETY: the helper, which `object` keeps alive, holds the buffer with this memory until it
        // says MOVED, which find_memory() follows at once; and it touches it only inside call(), for
        // which `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts(self.memory, self.capacity) }
    }

    #[inline]
    fn memory_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in memory().
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.capacity) }
    }

    /// The texts of the answer, one after the other.
    #[inline]
    pub fn answer(&self) -> Texts<'_> {
        Texts(self.memory())
    }

    #[cold]
    fn complaint(&self) -> Complaint {
        let memory = self.memory();
        let number = |position: usize| i32::from_ne_bytes(memory[position..position + 4].try_into().expect("4 bytes"));
        let mut texts = Texts(&memory[12..]);
        let mut text = || texts.text().unwrap_or_default().to_owned();
        Complaint {
            vendor: number(0),
            sqlstate: text(),
            standard: text(),
            classes: text(),
            message: text(),
            closed: number(4) != 0,
            late: number(8) != 0,
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.begin();
        // It is gone either way.
        let _ = self.call(Request::Close, 0, None);
    }
}

/// The values of an answer: a length and bytes, again and again. What the count of the answer does
/// not promise must not be asked for.
#[derive(Debug)]
pub struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    /// The next value; `None` is SQL's null.
    #[inline]
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_at(4);
        let length = i32::from_ne_bytes(length.try_into().expect("4 bytes"));
        if length == NULL {
            self.0 = rest;
            return None;
        }
        let (value, rest) = rest.split_at(length as usize);
        self.0 = rest;
        Some(value)
    }

    /// The next value, as text.
    pub fn text(&mut self) -> Option<&'a str> {
        self.value().map(|bytes| str::from_utf8(bytes).unwrap_or("?"))
    }
}
