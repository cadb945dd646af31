//! Fourier transforms along lines of a tensor (DFT, STFT): loading lines, transforming several at once, and storing
//! spectra. The FFT itself is in `udo_simd`.

use udo_api::{
    Element, Error, ExecError, FinalizeCx, Packed, PackedConstants, Parallel, Scratch, Sources,
    Workspace,
};
use udo_simd::fft::{Fft, Lane, RealFft};

/// Transforms computed side by side, one per vector lane.
const LANES: usize = 16;
/// The longest transform of which [`LANES`] fit a cache.
const LONGEST: usize = 1 << 14;

/// The transform of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransformSpec {
    /// Length of the transform.
    pub(crate) len: usize,
    /// Values per input element: 1 for real, 2 for complex.
    pub(crate) parts: usize,
    pub(crate) is_inverse: bool,
    /// Whether only half of a conjugate-symmetric spectrum is stored.
    pub(crate) is_half: bool,
}

impl TransformSpec {
    /// Returns the number of output elements per line.
    pub(crate) fn len_out(self) -> usize {
        if self.is_half && !self.is_inverse { self.len / 2 + 1 } else { self.len }
    }

    /// Returns the number of values per output element.
    pub(crate) fn parts_out(self) -> usize {
        if self.is_half && self.is_inverse { 1 } else { 2 }
    }
}

/// The lines of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a, T> {
    pub(crate) x: &'a [T],
    /// Elements of a line.
    pub(crate) len: usize,
    /// Stride between elements of a line.
    pub(crate) step: usize,
    /// Number of lines that are interleaved in the output.
    pub(crate) inner: usize,
    /// Factors of the elements.
    pub(crate) window: Option<&'a [T]>,
}

/// The plan of an FFT: of complex values, or of real ones in half the time.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Complex(Fft),
    Real(RealFft),
}

impl Plan {
    fn new(len: usize, is_real: bool) -> Option<Self> {
        if is_real { RealFft::new(len).map(Self::Real) } else { Fft::new(len).map(Self::Complex) }
    }

    fn memory_len(&self, lanes: usize) -> usize {
        match self {
            Self::Complex(fft) => fft.memory_len(lanes),
            Self::Real(fft) => fft.memory_len(lanes),
        }
    }

    fn table_len(&self) -> usize {
        match self {
            Self::Complex(fft) => fft.table_len(),
            Self::Real(fft) => fft.table_len(),
        }
    }

    fn run<T: Lane, const L: usize>(&self, table: &[T], data: &mut [T], scratch: &mut [T]) {
        match self {
            Self::Complex(fft) => fft.run::<T, L>(table, data, scratch),
            Self::Real(fft) => fft.run::<T, L>(table, data, scratch),
        }
    }
}

/// A transform of one length and kind, with its table of roots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transform<T> {
    spec: TransformSpec,
    plan: Plan,
    table: Packed<T>,
    /// Lines transformed at once: 1 or [`LANES`].
    lanes: usize,
    /// Parts of the output processed concurrently.
    parts: usize,
}

impl<T: Lane + Element> Transform<T> {
    /// Prepares a transform of at most `count` lines.
    pub(crate) fn new(
        cx: &FinalizeCx<'_>,
        spec: TransformSpec,
        count: usize,
    ) -> Result<Self, Error> {
        let is_real = spec.parts == 1 && !spec.is_inverse;
        let plan = Plan::new(spec.len, is_real).ok_or_else(|| {
            Error::new(format!("a transform of {} elements is beyond memory", spec.len))
        })?;
        let recipe = [spec.len as u64, is_real.into()];
        let table = cx.pack(&[], &recipe, plan.table_len(), fill_table::<T>)?;
        let lanes = if count < LANES / 4 || spec.len > LONGEST { 1 } else { LANES };
        Ok(Self { spec, plan, table, lanes, parts: cx.threads().min(count).max(1) })
    }

    /// Returns the scratch elements of a part: data and scratch memory of the FFT.
    fn part_len(&self) -> usize {
        2 * self.plan.memory_len(self.lanes)
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::for_elements::<T>(self.parts.saturating_mul(self.part_len()))
    }

    /// Transforms lines `0..count` into `y`; `start` returns the first element of a line.
    pub(crate) fn run(
        &self,
        line: Line<'_, T>,
        start: impl Fn(usize) -> usize + Sync,
        y: &mut [T],
        (parallel, mut scratch, packed): (Parallel<'_>, Scratch<'_>, PackedConstants<'_>),
    ) -> Result<(), ExecError> {
        let table = packed.get(self.table)?;
        let memory = scratch.take::<T>(self.parts * self.part_len())?;
        let block = self.spec.len_out() * self.spec.parts_out() * line.inner;
        let blocks = y.len() / block.max(1);
        let mut part_blocks = blocks.div_ceil(self.parts);
        if line.inner == 1 {
            part_blocks = part_blocks.next_multiple_of(self.lanes).min(blocks);
        }
        let chunk_len = part_blocks * block;
        parallel.chunks_mut_with(y, chunk_len, memory, self.part_len(), |part, y, memory| {
            let first = part * part_blocks * line.inner;
            let count = y.len() / block * line.inner;
            for first_of_group in (0..count).step_by(self.lanes) {
                let group = Group { transform: self, line: &line, table, first: first_of_group };
                let lanes = self.lanes.min(count - first_of_group);
                let start = |lane| start(first + first_of_group + lane);
                if self.lanes == 1 {
                    group.run::<1>(lanes, start, memory, y);
                } else {
                    group.run::<LANES>(lanes, start, memory, y);
                }
            }
            Ok(())
        })
    }
}

/// Fills the table of roots. The recipe (the integers that determine a packed constant) is length and kind.
fn fill_table<T: Lane>(recipe: &[u64], _: &Sources<'_>, table: &mut [T]) -> Result<(), Error> {
    let plan = match *recipe {
        [len, is_real] => usize::try_from(len).ok().and_then(|len| Plan::new(len, is_real == 1)),
        _ => None,
    };
    match plan.ok_or_else(|| crate::number::wrong_recipe(recipe))? {
        Plan::Complex(fft) => fft.fill(table),
        Plan::Real(fft) => fft.fill(table),
    }
    Ok(())
}

/// Lines that are transformed side by side.
struct Group<'a, T> {
    transform: &'a Transform<T>,
    line: &'a Line<'a, T>,
    table: &'a [T],
    /// Index of the first line within its part.
    first: usize,
}

impl<T: Lane + Element> Group<'_, T> {
    fn run<const L: usize>(
        &self,
        lanes: usize,
        start: impl Fn(usize) -> usize,
        memory: &mut [T],
        y: &mut [T],
    ) {
        let Transform { spec, plan, .. } = self.transform;
        let (data, scratch) = memory.split_at_mut(plan.memory_len(L));
        for lane in 0..lanes {
            self.load::<L>(lane, start(lane), data);
        }
        plan.run::<T, L>(self.table, data, &mut scratch[..plan.memory_len(L)]);
        let (len_out, parts) = (spec.len_out(), spec.parts_out());
        let inner = self.line.inner;
        for lane in 0..lanes {
            let line = self.first + lane;
            let first_element = line / inner * len_out * inner + line % inner;
            self.store::<L>(lane, data, &mut y[first_element * parts..]);
        }
    }

    /// Returns element `k` of a line, or zeros past its end.
    fn element(&self, start: usize, k: usize) -> [T; 2] {
        let Line { x, len, step, window, .. } = *self.line;
        if k >= len || window.is_some_and(|window| k >= window.len()) {
            return [T::default(); 2];
        }
        let index = start + k * step;
        let is_complex = self.transform.spec.parts == 2;
        let parts = [x[index], if is_complex { x[index + 1] } else { T::default() }];
        window.map_or(parts, |window| parts.map(|x| x * window[k]))
    }

    /// Loads a line into a lane of `data`.
    fn load<const L: usize>(&self, lane: usize, start: usize, data: &mut [T]) {
        let Transform { spec, plan, .. } = self.transform;
        let data = data.as_chunks_mut::<L>().0;
        let len = spec.len;
        if let Plan::Real(fft) = plan
            && fft.is_halved()
        {
            // A real line of even length is transformed as half as many complex values: even elements are real parts
            // and odd ones imaginary parts, which is their order in memory.
            let available = self.line.len.min(len).min(self.line.window.map_or(len, <[T]>::len));
            let x = self.line.x[start..].iter().step_by(self.line.step).take(available);
            let (input_part, rest) = data[..len].split_at_mut(available);
            match self.line.window {
                Some(window) => {
                    let multiply = |((to, &x), &w): ((&mut [T; L], &T), &T)| to[lane] = x * w;
                    input_part.iter_mut().zip(x).zip(window).for_each(multiply);
                }
                None => input_part.iter_mut().zip(x).for_each(|(to, &x)| to[lane] = x),
            }
            return rest.iter_mut().for_each(|to| to[lane] = T::default());
        }
        let data = &mut data.as_chunks_mut::<2>().0[..len];
        let mut put = |k: usize, [re, im]: [T; 2]| {
            // Swapping real and imaginary parts before and after a forward transform gives the inverse.
            let [re, im] = if spec.is_inverse { [im, re] } else { [re, im] };
            (data[k][0][lane], data[k][1][lane]) = (re, im);
        };
        if !(spec.is_inverse && spec.is_half) {
            return (0..len).for_each(|k| put(k, self.element(start, k)));
        }
        for k in 0..=len / 2 {
            let [re, im] = self.element(start, k);
            let mirrored = (len - k) % len;
            // A bin that is its own conjugate is real.
            let im = if mirrored == k { T::default() } else { im };
            put(mirrored, [re, T::default() - im]);
            put(k, [re, im]);
        }
    }

    /// Stores the result in a lane of `data`; elements of `y` are interleaved with those of other lines.
    fn store<const L: usize>(&self, lane: usize, data: &[T], y: &mut [T]) {
        let Transform { spec, plan, .. } = self.transform;
        let data = data.as_chunks::<L>().0.as_chunks::<2>().0;
        let step = self.line.inner * spec.parts_out();
        let scale = T::of_f64(1.0 / spec.len as f64);
        if spec.is_inverse && spec.is_half {
            for (y, x) in y.iter_mut().step_by(step).zip(&data[..spec.len]) {
                *y = x[1][lane] * scale;
            }
            return;
        }
        // A real transform computes half of the spectrum; the other half is its complex conjugate.
        let computed = match plan {
            Plan::Complex(_) => spec.len_out(),
            Plan::Real(fft) => fft.bins().min(spec.len_out()),
        };
        for (y, x) in y.chunks_mut(step).zip(&data[..computed]) {
            let [re, im] = [x[0][lane], x[1][lane]];
            let parts = if spec.is_inverse { [im * scale, re * scale] } else { [re, im] };
            y[..2].copy_from_slice(&parts);
        }
        for k in computed..spec.len_out() {
            let [re, im] = data[spec.len - k];
            y[k * step..][..2].copy_from_slice(&[re[lane], T::default() - im[lane]]);
        }
    }
}
