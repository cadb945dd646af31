//! `exp`, `log`, `tanh` and `erf` for AVX-512 by table: a table of 16 or 32 values fits one or two registers, and one
//! instruction looks up a whole vector. Also `rsqrt`, which starts from an instruction's estimate.
//!
//! A table divides the range into pieces narrow enough for a short polynomial. Polynomials interpolate at the Chebyshev
//! nodes of their pieces; all constants were computed in 160 bits.

use std::arch::x86_64::*;

use super::simd::Simd;
use super::token::Avx512;

// Adding 1.5 * 2^23 to a float below 2^22 leaves the nearest integer in the low bits of the sum. Smaller constants of
// this kind leave the nearest multiple of a power of two.

/// Adding it to a float below 2^18 leaves the nearest sixteenth in the low bits.
const SIXTEENTHS: f32 = 786_432.0;
/// Adding it to a float below 2^19 leaves the nearest eighth in the low bits.
const EIGHTHS: f32 = 1_572_864.0;
/// Adding it to a float below 2^22 leaves the nearest integer in the low bits.
const WHOLES: f32 = 12_582_912.0;

/// `ln 2` minus its nearest `f32`.
const LN2_LOW: f32 = -1.904_654_2e-9;

/// `2^(j / 16)` for `j` from 0 to 15.
#[rustfmt::skip]
const POWERS: [f32; 16] = [
    1.0, 1.044_273_7, 1.090_507_7, 1.138_788_6, 1.189_207_1, 1.241_857_8, 1.296_839_6, 1.354_255_6,
    std::f32::consts::SQRT_2, 1.476_826_2, 1.542_210_8, 1.610_490_3, 1.681_792_9, 1.756_252_2, 1.834_008_1,
    1.915_206_6,
];

/// Values `c` near `1 / (1 + (j + 0.5) / 16)` whose logarithms have few bits; 1 and 1/2 at the ends, so that logarithms
/// near 0 are exact.
#[rustfmt::skip]
const INVERSES: [f32; 16] = [
    1.0, 0.913_123_1, 0.864_103_56, 0.821_086_8, 0.777_262_9, 0.742_485_4, 0.709_924_4,
    0.682_426_6, 0.650_459_8, 0.629_505_4, 0.606_224_3, 0.579_681_8, 0.563_528_95, 0.541_438_04,
    0.522_888_5, 0.5,
];

/// `-log2` of [`INVERSES`], in multiples of 2^-16, to 2e-10: sums with exponents are exact.
#[rustfmt::skip]
const LOGS: [f32; 16] = [
    0.0, 0.131_118_77, 0.210_723_88, 0.284_393_3, 0.363_525_4, 0.429_565_43, 0.494_262_7,
    0.551_254_3, 0.620_468_14, 0.667_709_35, 0.722_076_4, 0.786_666_87, 0.827_438_35, 0.885_131_84,
    0.935_424_8, 1.0,
];

/// The series of `erf(a) / a` around `a = j / 8` for `j` from 0 to 31: the constant term, its rounding error, then the
/// coefficients of the powers of `a - j / 8`, lowest first.
#[expect(clippy::approx_constant, reason = "rounded down, so that its rounding error is positive")]
#[rustfmt::skip]
const ERF: [[f32; 32]; 6] = [
    [
        1.128_379_1, 1.122_529_6, 1.105_305_6, 1.077_645_1, 1.040_999_8, 0.997_185_4, 0.948_207_5,
        0.896_085_8, 0.842_700_8, 0.789_678_45, 0.738_320_1, 0.689_578_24, 0.644_070_1,
        0.602_119_2, 0.563_812_4, 0.529_061_4, 0.497_661_14, 0.469_339_28, 0.443_794_34,
        0.420_722_96, 0.399_837_23, 0.380_874_16, 0.363_599_78, 0.347_809_43, 0.333_325_98,
        0.319_996_83, 0.307_690_98, 0.296_295_76, 0.285_714_06, 0.275_861_98, 0.266_666_65,
        0.258_064_5,
    ],
    [
        6.052_392_4e-8, 1.251_803_1e-8, 8.190_343e-9, 2.842_592_5e-8, -1.453_839_6e-8,
        2.432_407_4e-9, 1.394_127_9e-8, -1.467_197_6e-8, 1.351_169_6e-8, -2.621_981_4e-8,
        -9.623_227e-9, -3.987_724e-10, 8.786_834e-9, 1.307_317_3e-8, 8.485_154e-9, -1.295_776_2e-8,
        -1.103_186e-8, -1.019_151_9e-9, 8.288_449e-9, 1.195_616e-8, -6.482_560_7e-9,
        -1.437_519_6e-8, -3.375_177_7e-9, 7.857_799e-9, -1.225_947_7e-8, -7.563_496e-10,
        5.709_933e-9, -3.626_94e-9, 1.333_233_4e-8, 9.016_65e-9, -1.443_269_7e-8, -3.280_418_6e-9,
    ],
    [
        0.0, -0.093_154_855, -0.181_165_56, -0.259_445_88, -0.324_434_1, -0.373_897_17,
        -0.407_035_08, -0.424_389_3, -0.427_593_23, -0.419_026_2, -0.401_439_22, -0.377_613_48,
        -0.350_093_28, -0.321_013_6, -0.292_021_42, -0.264_275, -0.238_497_12, -0.215_058_13,
        -0.194_067_58, -0.175_459_58, -0.159_063_58, -0.144_657_63, -0.132_004_9, -0.120_876_245,
        -0.111_062_236, -0.102_378_26, -0.094_665_16, -0.087_787_55, -0.081_631_05, -0.076_099_25,
        -0.071_110_87, -0.066_597_2,
    ],
    [
        -0.376_126_17, -0.365_645_56, -0.335_351_14, -0.288_496_52, -0.229_913_88, -0.165_263_73,
        -0.100_217_46, -0.039_728_653, 0.012_485_716_5, 0.054_193_7, 0.084_630_18, 0.104_268_15,
        0.114_465_18, 0.117_074_53, 0.114_094_37, 0.107_400_835, 0.098_581_575, 0.088_863_01,
        0.079_109_944, 0.069_871_25, 0.061_447_15, 0.053_959_794, 0.047_415_51, 0.041_753_683,
        0.036_881_49, 0.032_696_284, 0.029_098_554, 0.025_998_376, 0.023_317_756, 0.020_990_679,
        0.018_962_016, 0.017_186_034,
    ],
    [
        0.0, 0.055_282_846, 0.104_546_48, 0.142_760_74, 0.166_655_93, 0.175_119_04, 0.169_156_98,
        0.151_477_46, 0.125_822_37, 0.096_226_92, 0.066_366_57, 0.039_103_184, 0.016_274_666,
        -0.001_291_782_7, -0.013_604_986_5, -0.021_252_913, -0.025_136_018, -0.026_242_038,
        -0.025_487_66, -0.023_630_086, -0.021_236_718, -0.018_694_645, -0.016_241_705,
        -0.014_004_644, -0.012_035_102, -0.010_338_792, -0.008_896_659, -0.007_678_783_5,
        -0.006_652_641_6, -0.005_787_466, -0.005_056_139, -0.004_435_687_3,
    ],
    [
        0.112_680_63, 0.106_509_6, 0.088_946_6, 0.062_875_21, 0.032_359_24, 0.001_822_485_8,
        -0.024_801_577, -0.044_721_775, -0.056_615_353, -0.060_602_56, -0.057_937_656,
        -0.050_542_302, -0.040_519_47, -0.029_757_973, -0.019_687_682, -0.011_193_012,
        -0.004_653_342, -6.007_393e-5, 0.002_840_050_5, 0.004_413_338_4, 0.005_040_273,
        0.005_055_002_4, 0.004_718_363, 0.004_214_718_5, 0.003_662_365_7, 0.003_129_282,
        0.002_648_862, 0.002_232_942, 0.001_881_298_1, 0.001_587_890_8, 0.001_344_587_7,
        0.001_143_151_1,
    ],
];

/// The series of `tanh(a) / a` around `a = j / 3.4` for `j` from 0 to 31: the coefficients of the powers of `3.4 a -
/// j`, lowest first.
#[rustfmt::skip]
const TANH: [[f32; 32]; 6] = [
    [
        1.0, 0.972_128_9, 0.898_662_9, 0.801_942_3, 0.702_385_1, 0.611_788_9, 0.534_381_57,
        0.470_150_17, 0.417_383_22, 0.374_003_05, 0.338_109_28, 0.308_135_27, 0.282_846_54,
        0.261_288_85, 0.242_728_41, 0.226_599_95, 0.212_465_26, 0.199_981_85, 0.188_879_37,
        0.178_942_37, 0.169_997_36, 0.161_903_37, 0.154_544_71, 0.147_825_7, 0.141_666_46,
        0.135_999_89, 0.130_769_18, 0.125_925_9, 0.121_428_56, 0.117_241_375, 0.113_333_33,
        0.109_677_42,
    ],
    [
        0.0, -0.053_879_336, -0.089_053_75, -0.100_878_18, -0.096_303_85, -0.084_246_06,
        -0.070_613_354, -0.058_155_622, -0.047_732_6, -0.039_346_565, -0.032_701_835,
        -0.027_451_012, -0.023_284_44, -0.019_952_375, -0.017_262_032, -0.015_067_413,
        -0.013_258_643, -0.011_752_957, -0.010_487_696, -0.009_415_071, -0.008_498_313,
        -0.007_708_862, -0.007_024_324, -0.006_426_973, -0.005_902_646, -0.005_439_93,
        -0.005_029_548_4, -0.004_663_903_3, -0.004_336_724, -0.004_042_800_5, -0.003_777_774_7,
        -0.003_537_979_7,
    ],
    [
        -0.028_833_85, -0.023_339_825, -0.011_488_995_5, -0.001_012_425_9, 0.004_804_686,
        0.006_764_365, 0.006_651_586, 0.005_743_273, 0.004_684_024_5, 0.003_728_535_7,
        0.002_945_795_4, 0.002_330_973_5, 0.001_856_365_9, 0.001_491_672_1, 0.001_210_745_7,
        0.000_992_953_3, 0.000_822_655_33, 0.000_688_208_9, 0.000_581_002_04, 0.000_494_663_2,
        0.000_424_458_3, 0.000_366_846_77, 0.000_319_159_2, 0.000_279_365_46, 0.000_245_907_31,
        0.000_217_577_86, 0.000_193_433_85, 0.000_172_731_64, 0.000_154_880_05, 0.000_139_405_33,
        0.000_125_924_97, 0.000_114_127_92,
    ],
    [
        0.0, 0.003_355_848_6, 0.004_064_662, 0.002_746_957_4, 0.001_196_121_3, 0.000_216_808_49,
        -0.000_221_247, -0.000_350_077_1, -0.000_343_074_6, -0.000_290_669_7, -0.000_231_682_28,
        -0.000_179_837_25, -0.000_138_282_54, -0.000_106_304_24, -8.212_253e-5, -6.393_54e-5,
        -5.023_801e-5, -3.986_705e-5, -3.195_486_4e-5, -2.586_495_2e-5, -2.113_325_4e-5,
        -1.742_147_3e-5, -1.448_210_15e-5, -1.213_297_3e-5, -1.023_903_3e-5, -8.699_327e-6,
        -7.437_741e-6, -6.396_386_7e-6, -5.530_851e-6, -4.806_769_5e-6, -4.197_332_6e-6,
        -3.681_456e-6,
    ],
    [
        0.000_984_780_3, 0.000_547_961, -0.000_149_425_31, -0.000_413_779_2, -0.000_325_370_32,
        -0.000_168_671_96, -6.237_774_5e-5, -1.034_317_6e-5, 9.665_889e-6, 1.478_617_65e-5,
        1.410_651_75e-5, 1.169_056_8e-5, 9.131_349_5e-6, 6.946_848_8e-6, 5.231_438_5e-6,
        3.934_327e-6, 2.969_885e-6, 2.256_892_2e-6, 1.729_455_3e-6, 1.337_546e-6, 1.044_370_7e-6,
        8.232_758e-7, 6.550_65e-7, 5.259_177e-7, 4.258_522_8e-7, 3.476_212e-7, 2.859_263_5e-7,
        2.368_650_5e-7, 1.975_392_1e-7, 1.657_786_7e-7, 1.399_447_3e-7, 1.187_897_6e-7,
    ],
    [
        0.0, -0.000_148_648_85, -0.000_104_977_22, -6.528_355e-6, 3.172_518e-5, 2.756_675_2e-5,
        1.513_841e-5, 6.466_515e-6, 2.083_794_7e-6, 2.420_719_6e-7, -3.928_118_7e-7,
        -5.271_270_4e-7, -4.820_214e-7, -3.896_019_8e-7, -2.985_073e-7, -2.231_813_9e-7,
        -1.652_155e-7, -1.220_827_2e-7, -9.047_829_5e-8, -6.744_869_6e-8, -5.066_279e-8,
        -3.838_074e-8, -2.933_948e-8, -2.263_428_4e-8, -1.762_053_8e-8, -1.383_911_4e-8,
        -1.096_206_8e-8, -8.754_011e-9, -7.044_921_5e-9, -5.711_117_4e-9, -4.661_932e-9,
        -3.830_373_4e-9,
    ],
];

/// Looks up the low 4 bits of every lane in a table.
#[inline(always)]
fn look_up(table: &[f32; 16], index: __m512i) -> __m512 {
    // SAFETY: called by holders of a token only; a table has 16 entries.
    unsafe { _mm512_permutexvar_ps(index, _mm512_loadu_ps(table.as_ptr())) }
}

/// Looks up the low 5 bits of every lane in a table.
#[inline(always)]
fn look_up_32(table: &[f32; 32], index: __m512i) -> __m512 {
    // SAFETY: called by holders of a token only; a table has 32 entries.
    unsafe {
        let (low, high) =
            (_mm512_loadu_ps(table.as_ptr()), _mm512_loadu_ps(table.as_ptr().add(16)));
        _mm512_permutex2var_ps(low, index, high)
    }
}

/// Computes `exp` as `2^n * 2^(j / 16) * exp(r)`, where `n + j / 16` is the sixteenth nearest to `x / ln 2`; within 1.1
/// ulp.
#[inline(always)]
pub(super) fn exp(simd: Avx512, x: __m512) -> __m512 {
    let magic = simd.splat(SIXTEENTHS);
    let index = simd.fma(x, simd.splat(std::f32::consts::LOG2_E), magic);
    let sixteenths = simd.sub(index, magic);
    let r = simd.fnma(sixteenths, simd.splat(std::f32::consts::LN_2), x);
    let r = simd.fnma(sixteenths, simd.splat(LN2_LOW), r);
    // Where `x` is very large, `r` is meaningless and any small value will do. The instruction takes the smaller
    // absolute value with the sign of the first operand, and the second operand for NaN; then `sixteenths` is NaN as
    // well. SAFETY: the token shows that the machine has the instruction, which accesses no memory.
    let r = unsafe { _mm512_range_ps::<0b0010>(r, simd.splat(0.03)) };
    let power = look_up(&POWERS, simd.bits(index));
    let series = simd.fma(r, simd.splat(0.166_668_62), simd.splat(0.500_009_8));
    let series = simd.fma(series, r, simd.splat(1.0));
    let y = simd.fma(simd.mul(power, r), series, power);
    // The instruction scales by the whole part.
    simd.scale(y, sixteenths)
}

/// Computes `log` as `(e - log2 c) ln 2 + log(1 + (c m - 1))` for `x = 2^e m`, with a `c` near `1 / m` from a table.
///
/// The instructions that split `x` handle denormals, zeros, infinities and NaN.
#[inline(always)]
pub(super) fn log(simd: Avx512, x: __m512) -> __m512 {
    // SAFETY: the token shows that the machine has the instructions, which access no memory.
    let (exponent, mantissa) = unsafe {
        (_mm512_getexp_ps(x), _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_NAN>(x))
    };
    let index = simd.shr::<19>(simd.bits(mantissa));
    let inverse = look_up(&INVERSES, index);
    let remainder = simd.fma(mantissa, inverse, simd.splat(-1.0));
    let log2 = simd.add(exponent, look_up(&LOGS, index));
    let series = simd.poly(remainder, [0.190_212_56, -0.250_123_14, 0.333_341_78, -0.499_999_97]);
    let y = simd.fma(simd.mul(remainder, remainder), series, remainder);
    simd.fma(log2, simd.splat(std::f32::consts::LN_2), y)
}

/// Computes `erf` as `x * g(|x|)`, with a series of `g` for each eighth.
#[inline(always)]
pub(super) fn erf(simd: Avx512, x: __m512) -> __m512 {
    // From 3.93 on the result rounds to 1. NaN passes as the second operand.
    let x = simd.min(simd.splat(3.93), simd.max(simd.splat(-3.93), x));
    let (magnitude, magic) = (simd.abs(x), simd.splat(EIGHTHS));
    let index = simd.add(magnitude, magic);
    let offset = simd.sub(magnitude, simd.sub(index, magic));
    let index = simd.bits(index);
    let [constant, constant_error, powers @ ..] = &ERF;
    let mut series = look_up_32(&powers[3], index);
    series = simd.fma(series, offset, look_up_32(&powers[2], index));
    series = simd.fma(series, offset, look_up_32(&powers[1], index));
    series = simd.fma(series, offset, look_up_32(&powers[0], index));
    let low = simd.mul(x, simd.fma(series, offset, look_up_32(constant_error, index)));
    simd.fma(x, look_up_32(constant, index), low)
}

/// Computes `tanh` like [`erf`], without the rounding error of the constant term.
#[inline(always)]
pub(super) fn tanh(simd: Avx512, x: __m512) -> __m512 {
    // From 9.02 on the result rounds to 1. NaN passes as the second operand.
    let x = simd.min(simd.splat(9.05), simd.max(simd.splat(-9.05), x));
    let (magnitude, magic, steps) = (simd.abs(x), simd.splat(WHOLES), simd.splat(3.4));
    let index = simd.fma(magnitude, steps, magic);
    let offset = simd.fma(magnitude, steps, simd.sub(magic, index));
    let index = simd.bits(index);
    let mut series = look_up_32(&TANH[5], index);
    series = simd.fma(series, offset, look_up_32(&TANH[4], index));
    series = simd.fma(series, offset, look_up_32(&TANH[3], index));
    series = simd.fma(series, offset, look_up_32(&TANH[2], index));
    series = simd.fma(series, offset, look_up_32(&TANH[1], index));
    simd.mul(x, simd.fma(series, offset, look_up_32(&TANH[0], index)))
}

/// Computes `1 / sqrt(x)` by one Newton step from an estimate of 14 bits.
#[inline(always)]
pub(super) fn rsqrt(simd: Avx512, x: __m512) -> __m512 {
    // SAFETY: the token shows that the machine has the instructions, which access no memory.
    unsafe {
        let y = _mm512_rsqrt14_ps(x);
        let error = simd.fnma(simd.mul(x, y), y, simd.splat(1.0));
        // For zeros and infinities the error is NaN, and the estimate is exact.
        let regular = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(error, error);
        _mm512_mask3_fmadd_ps(simd.mul(y, simd.splat(0.5)), error, y, regular)
    }
}
