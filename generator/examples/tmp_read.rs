//! temp
use std::path::Path;
fn main() {
    for a in std::env::args().skip(1) {
        let t = std::fs::read_to_string(&a).unwrap();
        for m in [udo_generator::Mode::Strict, udo_generator::Mode::Compat] {
            let n = Path::new(&a).file_name().unwrap();
            let s = std::time::Instant::now();
            match udo_generator::read(&[udo_generator::Source { path: Path::new(n), text: &t }], m) {
                Ok((c, w)) => { println!("{m:?} OK {:?}", c.packages.iter().map(|p| (&p.name, &p.cores)).collect::<Vec<_>>()); for w in w { println!("{w}") } }
                Err(e) => { let s = e.to_string(); println!("{m:?} ERR\n{}", s.chars().take(3000).collect::<String>()) }
            }
            println!("{:?}", s.elapsed());
        }
    }
}
