//! Bytes that nobody wrote so: an error, or what was written.

use super::*;

/// A file whose weights fill some of it.
fn file() -> Vec<u8> {
    let mut graph = Graph::parse(TEXT).unwrap();
    let weights: Vec<f32> = (0u16..600).map(f32::from).collect();
    let weights = Tensor::from_slice(Shape::new(&[200, 3]).unwrap(), &weights).unwrap();
    let Source::Constant(bias) = &mut graph.values[4].source else { panic!("{graph}") };
    *bias = weights;
    let mut contents = contents(graph);
    contents.sections.push(section("hta", Some("net"), b"prepared"));
    contents.to_bytes().unwrap()
}

/// All that can be read of a file.
fn all(file: &[u8]) -> Result<Contents, String> {
    let read = || Container::read(&ModelBytes::copy_of(file))?.contents();
    read().map_err(|error| error.to_string())
}

/// The file with another text under a key, and checksums that fit.
fn with(key: &str, text: &str) -> Vec<u8> {
    let file = file();
    let (header, data) = header(&file);
    let mut header: serde_json::Value = serde_json::from_slice(header).unwrap();
    header[safetensors::METADATA][key] = text.into();
    sealed(header, data)
}

fn header(file: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = file.split_first_chunk::<8>().unwrap();
    rest.split_at(usize::try_from(u64::from_le_bytes(*len)).unwrap())
}

/// A file with this header, whose checksum is right if it has one.
fn sealed(mut header: serde_json::Value, data: &[u8]) -> Vec<u8> {
    if let Some(metadata) = header[safetensors::METADATA].as_object_mut() {
        let own = metadata.iter().filter(|(key, _)| key.starts_with("udo.") || *key == "format");
        let texts = own.filter_map(|(key, text)| Some((key.as_str(), text.as_str()?)));
        let sum = checksum::hex(key::sum(texts));
        metadata.insert(key::CHECKSUM.to_owned(), sum.into());
    }
    let header = header.to_string();
    let len = u64::try_from(header.len()).unwrap().to_le_bytes();
    [&len[..], header.as_bytes(), data].concat()
}

fn refusal(file: &[u8]) -> String {
    all(file).unwrap_err()
}

/// Numbers that look as if drawn; the same for the same seed.
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        // xorshift64* (Vigna, 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).unwrap() % below.max(1)
    }
}

/// A file with one thing wrong about it.
fn damaged(file: &[u8], next: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut other = file.to_vec();
    let at = next(file.len());
    match next(6) {
        0 => other[at] ^= 1 << next(8),
        1 => other[at] = u8::try_from(next(256)).unwrap(),
        2 => other.truncate(at),
        3 => drop(other.drain(at..(at + 1 + next(64)).min(file.len()))),
        4 => other.insert(at, u8::try_from(next(256)).unwrap()),
        _ => {
            let (from, len) = (next(file.len()), 1 + next(64));
            let bytes = file[from..(from + len).min(file.len())].to_vec();
            other.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = from);
        }
    }
    other
}

#[test]
fn what_is_damaged_is_refused_or_the_same() {
    let file = file();
    let whole = all(&file).unwrap();
    let whole = (whole.to_bytes().unwrap(), whole.networks[0].name.clone());
    let mut next = numbers(1);
    let mut refused = 0;
    for _ in 0..1000 {
        let other = damaged(&file, &mut next);
        match all(&other) {
            Ok(found) => assert_eq!(found.to_bytes().unwrap(), whole.0, "{other:?}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 900, "{refused} of 1000");
}

#[test]
fn a_header_that_fits_its_checksum_may_say_anything() {
    let file = file();
    let (text, data) = header(&file);
    let whole: serde_json::Value = serde_json::from_slice(text).unwrap();
    let mut next = numbers(2);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1000 {
        let mut header = whole.clone();
        let metadata = header[safetensors::METADATA].as_object_mut().unwrap();
        let keys: Vec<String> = metadata.keys().cloned().collect();
        let key = &keys[next(keys.len())];
        let text = metadata[key].as_str().unwrap().as_bytes();
        let Ok(text) = String::from_utf8(damaged(text, &mut next)) else { continue };
        metadata.insert(key.clone(), text.into());
        let is_good = all(&sealed(header, data)).is_ok();
        *(if is_good { &mut read } else { &mut refused }) += 1;
    }
    assert!(read > 10 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn faults_of_the_outer_form_are_told_apart() {
    let file = file();
    let wrong = "it is not a safetensors file, or is truncated: ";
    let cases: [(&[u8], &str); 7] = [
        (b"", "it has 0 bytes, expected at least 8"),
        (b"PK\x03\x04\0\0\0\0", "its header has length 67324752"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff{}", "its header has length 18446744073709551615"),
        (b"\x04\0\0\0\0\0\0\0{", "its header has 1 bytes, expected 4"),
        (b"\x02\0\0\0\0\0\0\0{]", "its header is not a JSON object of tensors: "),
        (&file[..file.len() - 1], "of the data, which has "),
        (&[&file[..], &[0]].concat(), "bytes of data, expected "),
    ];
    for (bytes, expected) in cases {
        let error = refusal(bytes);
        assert!(error.starts_with(wrong) || bytes.starts_with(b"PK"), "{error}");
        assert!(error.contains(expected) || bytes.starts_with(b"PK"), "{error}");
    }
    let of = |header: &str, data: &[u8]| {
        let len = u64::try_from(header.len()).unwrap().to_le_bytes();
        refusal(&[&len[..], header.as_bytes(), data].concat())
    };
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        let text = format!(
            "{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}"
        );
        of(&text, &[0; 8])
    };
    let cases = [
        (tensor("F32", "[2]", "[4,12]"), "tensor \"a\" begins at byte 4 of the data, expected 0"),
        (
            tensor("F32", "[3]", "[0,12]"),
            "tensor \"a\" ends at byte 12 of the data, which has 8 bytes",
        ),
        (
            tensor("F32", "[3]", "[0,8]"),
            "tensor \"a\" ends at byte 8 of the data, expected 12 bytes from byte 0 for F32 [3]",
        ),
        (tensor("F31", "[2]", "[0,8]"), "tensor \"a\" has elements of unknown type \"F31\""),
        (tensor("F4", "[3]", "[0,8]"), "tensor \"a\" ends within a byte: 12 bits"),
        (
            tensor("F32", "[4611686018427387904,4]", "[0,8]"),
            "tensor \"a\" has too many elements: [4611686018427387904, 4]",
        ),
        (tensor("F32", "[2]", "[8,0]"), "tensor \"a\" begins at byte 8 of the data, expected 0"),
        (
            tensor("U8", "[4]", "[0,4]"),
            "8 bytes of data, expected 4 bytes, the size of all tensors",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, format!("{wrong}{expected}"));
    }
    let twice = of("{\"__metadata__\":{},\"__metadata__\":{}}", b"");
    assert!(twice.contains("duplicate metadata"), "{twice}");
    let entry = "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    let twice = of(&format!("{{{entry},{entry}}}"), b"");
    assert!(twice.ends_with("two tensors are called \"a\", expected different names"), "{twice}");
}

#[test]
fn faults_of_the_model_are_told_apart() {
    let cases = [
        (
            with("format", "pt"),
            "it has tensors and no graph: metadata \"format\" is \"pt\", expected \"udo\"",
        ),
        (
            with("udo.version", "2"),
            "it has format version 2, expected at most 1: a newer udo wrote it",
        ),
        (with("udo.version", "0"), "metadata \"udo.version\": \"0\", expected 1 to 1"),
        (with("udo.networks", "[]"), "the file: no network, expected at least one"),
        (
            with("udo.networks", "[{\"name\":\"n\",\"stages\":[]}]"),
            "network \"n\": no stage, expected at least one",
        ),
        (
            with(
                "udo.networks",
                "[{\"name\":\"n\",\"stages\":[{\"graph\":9,\"source\":{\"file\":\"\",\"sha256\":\"\",\"tool\":\"\"}}]}]",
            ),
            "a stage: graph 9, expected one of the file's 1",
        ),
        (
            with("udo.sections", "[{\"name\":\"s\",\"tensor\":\"bias\"}]"),
            "section \"s\": a tensor of f32, expected a tensor of u8",
        ),
        (
            with("udo.sections", "[{\"name\":\"s\",\"tensor\":\"none there\"}]"),
            "section \"s\": tensor \"none there\", expected a tensor of the file",
        ),
        (with("udo.graphs", "[1]"), "metadata \"udo.graphs\": invalid type: integer `1`"),
    ];
    for (file, expected) in cases {
        let error = refusal(&file);
        assert!(error.starts_with(expected), "{error}");
    }
    let file = file();
    let mut other = file.clone();
    let at = header(&file).0.len() + 8;
    other[at] ^= 1;
    let error = refusal(&other);
    assert!(error.starts_with("tensor \"bias\" is damaged: its checksum is "), "{error}");
    let text = String::from_utf8_lossy(&file).into_owned();
    let at = text.find("twist").unwrap();
    let mut other = file;
    other[at] = b'T';
    let error = refusal(&other);
    assert!(error.starts_with("the header is damaged: its checksum is "), "{error}");
}

#[test]
fn faults_of_a_graph_are_told_apart() {
    let value = "{\"name\":\"v\"}";
    let input = "{\"name\":\"v\",\"type\":{\"dtype\":\"f32\",\"dims\":[2]}}";
    let graph = |values: &str, inputs: &str, nodes: &str| {
        let text = format!(
            "[{{\"values\":[{values}],\"inputs\":[{inputs}],\"nodes\":[{nodes}],\"outputs\":[]}}]"
        );
        let mut file = with("udo.graphs", &text);
        let (head, data) = header(&file);
        let head: serde_json::Value = serde_json::from_slice(head).unwrap();
        file = sealed(head, data);
        refusal(&file)
    };
    let constant = |tensor: &str, shape: &str| {
        let constant = format!("{{\"tensor\":\"{tensor}\",\"shape\":{shape}}}");
        graph(&format!("{{\"name\":\"v\",\"constant\":{constant}}}"), "", "")
    };
    let node = |inputs: &str, attr: &str| {
        let node = format!(
            "{{\"id\":0,\"name\":\"n\",\"op\":\"Abs\",\"opset\":1,\"inputs\":[{inputs}],\"outputs\":[],\"attrs\":[{attr}]}}"
        );
        graph(value, "", &node)
    };
    let cases = [
        (graph(value, "0", ""), "graph 0 input 0: no type, expected an input with a type"),
        (
            graph(input, "0,0", ""),
            "input 1: value \"v\", which is a constant or is listed twice, expected",
        ),
        (graph("", "4294967295", ""), "graph 0 input 0: no type, expected"),
        (
            constant("nowhere", "[1]"),
            "value 0 \"v\": tensor \"nowhere\", expected a tensor of the file",
        ),
        (
            constant("bias", "[3]"),
            "value 0 \"v\": shape [3] for tensor \"bias\": 2400 bytes, expected 12",
        ),
        (
            constant("bias", "[4611686018427387904,4]"),
            "value 0 \"v\": shape [4611686018427387904, 4] for",
        ),
        (
            constant("bias", "[1,1,1,1,1,1,1,1,600]"),
            "value 0 \"v\": shape [1, 1, 1, 1, 1, 1, 1, 1, 600]",
        ),
        (node("7", ""), "graph 0: node \"n\" input 0 is value 7, expected one of the graph's 1"),
        (node("0", ""), "graph 0: node \"n\" input 0 is value \"v\", which nothing makes"),
        (
            node("", "[\"f\",{\"float\":\"one\"}]"),
            "node \"n\" attribute \"f\": \"one\", expected a number",
        ),
        (node("", "[\"f\",{\"real\":1}]"), "metadata \"udo.graphs\": unknown variant `real`"),
    ];
    for (error, expected) in cases {
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
    let error = graph(&input.replace("f32", "str"), "0", "");
    assert!(
        error.starts_with("graph 0 input 0: type \"str\", expected the name of an element type"),
        "{error}"
    );
    let inner = "{\"values\":[],\"inputs\":[9],\"nodes\":[],\"outputs\":[]}";
    let error = node("", &format!("[\"body\",{{\"graph\":{inner}}}]"));
    assert_eq!(
        error,
        "node \"n\" attribute \"body\": input 0: value 9, expected one of the graph's 0"
    );
}
