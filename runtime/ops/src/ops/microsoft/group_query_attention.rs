//! Attention of language models: query heads share key heads, with a key-value cache and rotary position embedding.
//!
//! `GroupedShapes` infers the shapes and checks the parameters, and the kernels are in `family::attention`.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Param, Port, Value, types};

use crate::Def;
use crate::family::attention::{GROUPED, GroupedShapes};

pub(crate) const DEF: Def = Def::new::<GroupQueryAttention>(GROUPED);

struct GroupQueryAttention;

impl Op for GroupQueryAttention {
    const SCHEMA: OpSchema = OpSchema::new(
        "GroupQueryAttention",
        &[
            Port::required("query", types::F32),
            Port::optional("key", types::F32),
            Port::optional("value", types::F32),
            Port::optional("past_key", types::F32),
            Port::optional("past_value", types::F32),
            Port::required("seqlens_k", types::I32),
            Port::required("total_sequence_length", types::I32),
            Port::optional("cos_cache", types::F32),
            Port::optional("sin_cache", types::F32),
            Port::optional("position_ids", types::I64),
            Port::optional("attention_bias", types::F32),
            Port::optional("head_sink", types::F32),
            Port::optional("k_scale", types::F32),
            Port::optional("v_scale", types::F32),
            Port::optional("q_norm_weight", types::F32),
            Port::optional("k_norm_weight", types::F32),
        ],
        &[
            Port::required("output", types::F32),
            Port::required("present_key", types::F32),
            Port::required("present_value", types::F32),
        ],
        &[
            Param::scalar("causal", DType::I64).default(Value::int(1)),
            Param::scalar("do_rotary", DType::I64).default(Value::int(0)),
            Param::text("k_quant_type").default(Value::text("NONE")),
            Param::scalar("kv_cache_bit_width", DType::I64).default(Value::int(0)),
            Param::scalar("kv_num_heads", DType::I64),
            Param::scalar("local_window_size", DType::I64).default(Value::int(-1)),
            Param::scalar("num_heads", DType::I64),
            Param::scalar("qk_norm_epsilon", DType::F32).default(Value::float(1e-6)),
            Param::scalar("qk_output", DType::I64).default(Value::int(0)),
            Param::scalar("rotary_interleaved", DType::I64).default(Value::int(0)),
            Param::scalar("scale", DType::F32).default(Value::float(0.0)),
            Param::scalar("sliding_window_cache", DType::I64).default(Value::int(0)),
            Param::scalar("smooth_softmax", DType::I64).default(Value::int(0)),
            Param::scalar("softcap", DType::F32).default(Value::float(0.0)),
            Param::text("v_quant_type").default(Value::text("NONE")),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (query, GroupedShapes { rows, cache }) = (cx.input(0)?, GroupedShapes::infer(cx)?);
        cx.set_output(0, query.with_shape(rows))?;
        (1..cx.output_count()).try_for_each(|port| cx.set_output(port, query.with_shape(cache)))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::ExecError;

    use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

    /// Elements of a head.
    const SIZE: usize = 4;
    /// Positions of the whole sequence, and of the rotary angles.
    const POSITIONS: usize = 9;

    /// Builds a node for the given positions of a sequence: two query heads share one key head.
    fn bench_with(positions: std::ops::Range<usize>, past: Option<[Tensor; 2]>) -> Bench {
        bench_with_total(positions, past, Bench::constant)
    }

    /// Does the same; `add_total` adds the total length as a constant or an input.
    fn bench_with_total(
        positions: std::ops::Range<usize>,
        past: Option<[Tensor; 2]>,
        add_total: fn(Bench, Tensor) -> Bench,
    ) -> Bench {
        // `skip` selects unlike values for each input.
        let rows = |heads: usize, skip: usize| {
            let width = heads * SIZE;
            let x = noise(POSITIONS * width + skip).split_off(skip);
            tensor(&[1, positions.len(), width], &x[positions.start * width..positions.end * width])
        };
        let run = bench("com.microsoft:GroupQueryAttention");
        let run = run.input(rows(2, 0)).input(rows(1, 1)).input(rows(1, 2));
        let run = match past {
            Some([keys, values]) => run.input(keys).input(values),
            None => run.absent().absent(),
        };
        let end = positions.end as i32;
        let run = add_total(run.input(tensor(&[1], &[end - 1])), tensor(&[], &[end]));
        let angles = |skip: usize| tensor(&[POSITIONS, 2], &noise(POSITIONS * 2 + skip)[skip..]);
        let run = run.input(angles(3)).input(angles(4)).int("do_rotary", 1);
        run.int("num_heads", 2).outputs(3)
    }

    fn with_one_key_head(run: Bench) -> Bench {
        run.int("kv_num_heads", 1)
    }

    #[test]
    fn single_steps_match_a_prompt() {
        for (window, softcap) in [(-1, 0.0), (3, 0.0), (-1, 0.5)] {
            let configured = |run: Bench| {
                with_one_key_head(run).int("local_window_size", window).float("softcap", softcap)
            };
            let prompt = configured(bench_with(0..POSITIONS, None)).all();
            let mut caches = None;
            let mut rows = Vec::new();
            for positions in [0..4, 4..7, 7..8, 8..9] {
                let outputs = configured(bench_with(positions, caches.take())).all();
                rows.extend(outputs[0].values::<f32>());
                let [_, keys, values] = <[Tensor; 3]>::try_from(outputs).ok().unwrap();
                caches = Some([keys, values]);
            }
            let expected =
                |x: &Tensor| -> Vec<f64> { x.values::<f32>().into_iter().map(f64::from).collect() };
            assert_near(&rows, &expected(&prompt[0]), 1e-5);
            for (cache, prompt) in caches.unwrap().iter().zip(&prompt[1..]) {
                assert_near(&cache.values::<f32>(), &expected(prompt), 1e-6);
            }
        }
    }

    #[test]
    fn new_keys_are_appended_to_a_larger_cache() {
        let cache = |x: &[f32]| tensor(&[1, 1, 6, SIZE], x);
        let past: Vec<f32> = noise(6 * SIZE);
        let outputs = with_one_key_head(bench_with(3..5, Some([cache(&past), cache(&past)]))).all();
        assert_eq!(outputs[1].dims(), [1, 1, 6, SIZE]);
        let values = outputs[2].values::<f32>();
        assert_eq!(values[..3 * SIZE], past[..3 * SIZE]);
        assert_eq!(values[5 * SIZE..], [0.0; SIZE]);
    }

    #[test]
    fn the_total_length_may_be_computed_in_the_run() {
        let cache = || tensor(&[1, 1, 6, SIZE], &noise(6 * SIZE));
        for (positions, past) in [(0..5, None), (3..5, Some([cache(), cache()]))] {
            let run = |add_total: fn(Bench, Tensor) -> Bench| {
                with_one_key_head(bench_with_total(positions.clone(), past.clone(), add_total))
                    .all()
            };
            for (known, computed) in run(Bench::constant).iter().zip(run(Bench::input)) {
                assert_eq!(
                    (known.dims(), known.values::<f32>()),
                    (computed.dims(), computed.values())
                );
            }
        }
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let error = bench_with(0..3, None).int("kv_num_heads", 4).error();
        assert_eq!(error, "2 query heads are not a multiple of 4 heads of keys");
        let error = with_one_key_head(bench_with(0..3, None)).int("qk_output", 1).error();
        assert_eq!(error, "parameter \"qk_output\" is 1, which asks for scores, expected 0");
        let cache = || tensor(&[1, 1, 1, SIZE], &[0f32; SIZE]);
        let error = with_one_key_head(bench_with(3..5, Some([cache(), cache()]))).error();
        assert_eq!(error, ExecError::bad_value(4, 0).to_string());
        let error = with_one_key_head(bench_with(0..3, None))
            .absent()
            .absent()
            .absent()
            .input(cache())
            .error();
        assert!(error.starts_with("input 12 is there, expected none"), "{error}");
    }
}
