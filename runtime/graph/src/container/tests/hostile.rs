//! Tests of damaged and malicious model files: reading fails or returns the original content, and never panics.

use super::*;

/// Creates a model file with some weights and a section.
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

/// Reads the whole content of a file.
fn read_all(file: &[u8]) -> Result<Contents, String> {
    let read = || Container::read(&ModelBytes::copy_of(file))?.contents();
    read().map_err(|error| error.to_string())
}

/// Creates a file with another text under a metadata key, and a correct checksum.
fn file_with(key: &str, text: &str) -> Vec<u8> {
    let file = file();
    let (header, data) = header(&file);
    let mut header: serde_json::Value = serde_json::from_slice(header).unwrap();
    header[safetensors::METADATA][key] = text.into();
    sealed(header, data)
}

/// Splits a file into its header and the elements of its tensors.
fn header(file: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = file.split_first_chunk::<8>().unwrap();
    rest.split_at(usize::try_from(u64::from_le_bytes(*len)).unwrap())
}

/// Encodes a file with this header, and replaces the checksum in its metadata by the correct one.
fn sealed(mut header: serde_json::Value, data: &[u8]) -> Vec<u8> {
    if let Some(metadata) = header[safetensors::METADATA].as_object_mut() {
        let entries = metadata.iter();
        let entries = entries.filter(|(key, _)| key.starts_with("udo.") || *key == "format");
        let texts = entries.filter_map(|(key, text)| Some((key.as_str(), text.as_str()?)));
        let sum = checksum::hex(key::sum(texts));
        metadata.insert(key::CHECKSUM.to_owned(), sum.into());
    }
    let header = header.to_string();
    let len = u64::try_from(header.len()).unwrap().to_le_bytes();
    [&len[..], header.as_bytes(), data].concat()
}

fn refusal(file: &[u8]) -> String {
    read_all(file).unwrap_err()
}

/// Returns a generator of pseudo-random numbers below an argument.
fn random_numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        // xorshift64* (Vigna, 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let random = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(random).unwrap() % below.max(1)
    }
}

/// Returns the file with one random change.
fn damaged(file: &[u8], next: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut damaged = file.to_vec();
    let offset = next(file.len());
    match next(6) {
        0 => damaged[offset] ^= 1 << next(8),
        1 => damaged[offset] = u8::try_from(next(256)).unwrap(),
        2 => damaged.truncate(offset),
        3 => drop(damaged.drain(offset..(offset + 1 + next(64)).min(file.len()))),
        4 => damaged.insert(offset, u8::try_from(next(256)).unwrap()),
        _ => {
            let (start, len) = (next(file.len()), 1 + next(64));
            let bytes = file[start..(start + len).min(file.len())].to_vec();
            damaged.iter_mut().skip(offset).zip(bytes).for_each(|(to, from)| *to = from);
        }
    }
    damaged
}

#[test]
fn a_damaged_file_is_refused_or_reads_unchanged() {
    let file = file();
    let expected = read_all(&file).unwrap().to_bytes().unwrap();
    let mut next = random_numbers(1);
    let mut refused = 0;
    for _ in 0..1000 {
        let other = damaged(&file, &mut next);
        match read_all(&other) {
            Ok(actual) => assert_eq!(actual.to_bytes().unwrap(), expected, "{other:?}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 900, "{refused} of 1000");
}

#[test]
fn damaged_metadata_with_a_correct_checksum_never_panics() {
    let file = file();
    let (text, data) = header(&file);
    let original: serde_json::Value = serde_json::from_slice(text).unwrap();
    let mut next = random_numbers(2);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1000 {
        let mut header = original.clone();
        let metadata = header[safetensors::METADATA].as_object_mut().unwrap();
        let keys: Vec<String> = metadata.keys().cloned().collect();
        let key = &keys[next(keys.len())];
        let text = metadata[key].as_str().unwrap().as_bytes();
        let Ok(text) = String::from_utf8(damaged(text, &mut next)) else { continue };
        metadata.insert(key.clone(), text.into());
        let is_valid = read_all(&sealed(header, data)).is_ok();
        *(if is_valid { &mut read } else { &mut refused }) += 1;
    }
    assert!(read > 10 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn errors_of_the_safetensors_format_are_specific() {
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
    let refusal_of_header = |header: &str, data: &[u8]| {
        let len = u64::try_from(header.len()).unwrap().to_le_bytes();
        refusal(&[&len[..], header.as_bytes(), data].concat())
    };
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        let text = format!(
            "{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}"
        );
        refusal_of_header(&text, &[0; 8])
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
    let error = refusal_of_header("{\"__metadata__\":{},\"__metadata__\":{}}", b"");
    assert!(error.contains("duplicate metadata"), "{error}");
    let entry = "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    let error = refusal_of_header(&format!("{{{entry},{entry}}}"), b"");
    assert!(error.ends_with("two tensors are called \"a\", expected different names"), "{error}");
}

#[test]
fn errors_of_the_metadata_are_specific() {
    let cases = [
        (
            file_with("format", "pt"),
            "it has tensors and no graph: metadata \"format\" is \"pt\", expected \"udo\"",
        ),
        (
            file_with("udo.version", "2"),
            "it has format version 2, expected at most 1: a newer udo wrote it",
        ),
        (file_with("udo.version", "0"), "metadata \"udo.version\": \"0\", expected 1 to 1"),
        (file_with("udo.networks", "[]"), "the file: no network, expected at least one"),
        (
            file_with("udo.networks", "[{\"name\":\"n\",\"stages\":[]}]"),
            "network \"n\": no stage, expected at least one",
        ),
        (
            file_with(
                "udo.networks",
                "[{\"name\":\"n\",\"stages\":[{\"graph\":9,\"source\":{\"file\":\"\",\"sha256\":\"\",\"tool\":\"\"}}]}]",
            ),
            "a stage: graph 9, expected one of the file's 1",
        ),
        (
            file_with("udo.sections", "[{\"name\":\"s\",\"tensor\":\"bias\"}]"),
            "section \"s\": a tensor of f32, expected a tensor of u8",
        ),
        (
            file_with("udo.sections", "[{\"name\":\"s\",\"tensor\":\"none there\"}]"),
            "section \"s\": tensor \"none there\", expected a tensor of the file",
        ),
        (file_with("udo.graphs", "[1]"), "metadata \"udo.graphs\": invalid type: integer `1`"),
    ];
    for (file, expected) in cases {
        let error = refusal(&file);
        assert!(error.starts_with(expected), "{error}");
    }
    let file = file();
    let mut damaged = file.clone();
    let (header, _) = header(&file);
    damaged[header.len() + 8] ^= 1;
    let error = refusal(&damaged);
    assert!(error.starts_with("tensor \"bias\" is damaged: its checksum is "), "{error}");
    let text = String::from_utf8_lossy(&file).into_owned();
    let offset = text.find("twist").unwrap();
    let mut damaged = file;
    damaged[offset] = b'T';
    let error = refusal(&damaged);
    assert!(error.starts_with("the header is damaged: its checksum is "), "{error}");
}

#[test]
fn errors_of_a_graph_are_specific() {
    let value = "{\"name\":\"v\"}";
    let input = "{\"name\":\"v\",\"type\":{\"dtype\":\"f32\",\"dims\":[2]}}";
    let graph = |values: &str, inputs: &str, nodes: &str| {
        let text = format!(
            "[{{\"values\":[{values}],\"inputs\":[{inputs}],\"nodes\":[{nodes}],\"outputs\":[]}}]"
        );
        refusal(&file_with("udo.graphs", &text))
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
