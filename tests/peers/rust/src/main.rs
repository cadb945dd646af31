//! Runs a model with one of the engines that are written in Rust, as often as a line of its input says.
//!
//! `udo-peers ENGINE MODEL THREADS OUTPUT [NAME=TYPE:DIMS=FILE ..]` reads each input from a file of bare elements. It
//! prints `ready`, or `cannot` and why; then, for each line with a number, runs the model so often and prints `ms` and
//! the milliseconds of each run. OUTPUT gets the elements of the first output of the first run, if they are `f32`.
#![forbid(unsafe_code)]

mod rten_engine;
mod tract_engine;

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Elements of the types that the models' inputs have.
enum Elements {
    F32(Vec<f32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

/// The inputs of a run.
struct Input {
    name: String,
    dims: Vec<usize>,
    elements: Elements,
}

/// A model that is ready.
trait Engine {
    /// Runs it once; the elements of its first output, if they are `f32`.
    fn run(&mut self) -> Outcome<Vec<f32>>;
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [engine, model, threads, output, inputs @ ..] = arguments.as_slice() else {
        return Err("expected ENGINE MODEL THREADS OUTPUT [NAME=TYPE:DIMS=FILE ..]".into());
    };
    let inputs = inputs.iter().map(|text| read(text)).collect::<Outcome<Vec<_>>>()?;
    let loaded = load(engine, Path::new(model), threads.parse()?, inputs).and_then(|mut engine| {
        let first = engine.run()?;
        let bytes: Vec<u8> = first.iter().flat_map(|x| x.to_le_bytes()).collect();
        fs::write(output, bytes)?;
        Ok(engine)
    });
    let mut engine = match loaded {
        Ok(engine) => engine,
        Err(error) => return say(&format!("cannot {error}")),
    };
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let mut times = "ms".to_owned();
        for _ in 0..line?.trim().parse::<usize>()? {
            let start = Instant::now();
            engine.run()?;
            times.push_str(&format!(" {}", start.elapsed().as_secs_f64() * 1e3));
        }
        say(&times)?;
    }
    Ok(())
}

fn load(
    engine: &str,
    model: &Path,
    threads: usize,
    inputs: Vec<Input>,
) -> Outcome<Box<dyn Engine>> {
    Ok(match engine {
        "tract" => Box::new(tract_engine::load(model, threads, &inputs)?),
        "rten" => Box::new(rten_engine::load(model, threads, inputs)?),
        other => return Err(format!("no engine is called {other}, expected tract or rten").into()),
    })
}

/// Prints one line, whatever the text has in it.
fn say(text: &str) -> Outcome<()> {
    let line: Vec<&str> = text.split_whitespace().collect();
    println!("{}", line.join(" "));
    Ok(io::stdout().flush()?)
}

/// Reads an input that is described as `NAME=TYPE:DIMS=FILE`.
fn read(text: &str) -> Outcome<Input> {
    let wrong = || format!("input {text:?}: expected NAME=TYPE:DIMS=FILE");
    // Names of inputs may have signs of their own.
    let (rest, file) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (name, of) = rest.rsplit_once('=').ok_or_else(wrong)?;
    let (dtype, dims) = of.split_once(':').ok_or_else(wrong)?;
    let dims =
        dims.split(',').filter(|dim| !dim.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    let bytes = fs::read(file)?;
    let elements = match dtype {
        "f32" => Elements::F32(words(&bytes, f32::from_le_bytes)),
        "i32" => Elements::I32(words(&bytes, i32::from_le_bytes)),
        "i64" => Elements::I64(words(&bytes, i64::from_le_bytes)),
        other => return Err(format!("input {name} is {other}, expected f32, i32 or i64").into()),
    };
    Ok(Input { name: name.to_owned(), dims, elements })
}

fn words<T, const N: usize>(bytes: &[u8], word: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&bytes| word(bytes)).collect()
}
