//! The source of the ranges of values if a float model is quantized at load time, as for the DSP.

use std::num::NonZero;
use std::sync::Arc;

use clap::Args;
use udo_api::CoreKind;
use udo_runtime::compile::RangeSource;
use udo_runtime::graph::ImportOptions;
use udo_runtime::quant;

use crate::commands::quantize::DataFlags;
use crate::commands::quantize::data::Data;
use crate::input_list::Feeds;
use crate::model_flags::ModelFlags;
use crate::output::Failure;
use crate::raw::Packing;

/// The maximum number of input sets to calibrate a model with at load time, and the number of random sets if it has
/// no others.
const MOST_RUNS: NonZero<usize> = NonZero::<usize>::MIN.saturating_add(7);

/// `--random`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RangeFlags {
    /// Calibrate with N random input sets if the model is quantized at load time
    ///
    /// A float model is quantized at load time if --cores prefers a core that needs quantized
    /// values, such as the DSP. Its ranges come from the first 8 input sets that the command reads.
    /// If it reads none, they come from 8 sets of pseudo-random inputs. With this flag they come
    /// from N pseudo-random sets, which are the same each time.
    #[arg(long, value_name = "N")]
    random: Option<NonZero<usize>>,
}

/// The inputs that a command has for the model's runs.
pub(crate) enum InputSource<'a> {
    /// Files of a folder, or of a list; none, or random ones.
    Data(DataFlags),
    /// The files of one run.
    Feeds(&'a Feeds),
}

impl RangeFlags {
    /// Has the ranges be of random inputs, or else of those that are given.
    pub(crate) fn set(&self, flags: &mut ModelFlags, given: InputSource<'_>, packing: Packing) {
        flags.range_source = match (self.random, given) {
            (Some(count), _) => RangeSource::Random(count),
            (None, given) => source(flags, given, packing),
        };
    }
}

/// The ranges of inputs that are given.
pub(crate) fn source(flags: &ModelFlags, given: InputSource<'_>, packing: Packing) -> RangeSource {
    match given {
        InputSource::Data(DataFlags { input_list: None, calibration: None, random }) => {
            RangeSource::Random(random.unwrap_or(MOST_RUNS))
        }
        // What is wrong with the model or its inputs, the load and the runs say.
        given => of_files(flags, &given, packing).unwrap_or(RangeSource::Random(MOST_RUNS)),
    }
}

fn of_files(
    flags: &ModelFlags,
    given: &InputSource<'_>,
    packing: Packing,
) -> Result<RangeSource, Failure> {
    let kind = flags.place.cores.all.first().and_then(|core| core.kind());
    if !matches!(kind, Some(CoreKind::Dsp | CoreKind::Hta)) {
        return Ok(RangeSource::Nothing);
    }
    let graph = flags.runtime()?.import(&flags.model, &ImportOptions::default())?;
    if !quant::is_wanted(&graph, &flags.place.cores.all) {
        return Ok(RangeSource::Nothing);
    }
    let data = match given {
        InputSource::Data(data) => Data::find(data, packing, &graph, &flags.shape)?,
        InputSource::Feeds(feeds) => Data::of_feeds(feeds, packing, &graph, &flags.shape)?,
    };
    let sets = (0..data.runs().min(MOST_RUNS.get())).map(|run| data.read(run));
    Ok(RangeSource::Inputs(Arc::new(sets.collect::<Result<_, _>>()?)))
}
