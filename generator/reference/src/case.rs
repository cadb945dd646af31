//! Converts names of operators and ports to Rust's naming conventions.

/// Converts to `snake_case`: `Conv2DQuant` becomes `conv2d_quant`, `HTTPOp` becomes `http_op`.
pub fn to_snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (index, &c) in chars.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|at| chars.get(at));
        let next_is_lowercase = chars.get(index + 1).is_some_and(char::is_ascii_lowercase);
        let starts_word = c.is_ascii_uppercase()
            && previous.is_some_and(|b| {
                b.is_ascii_lowercase() || (b.is_ascii_alphanumeric() && next_is_lowercase)
            });
        if (starts_word || c == '_') && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        if c != '_' {
            snake.push(c.to_ascii_lowercase());
        }
    }
    let end = snake.trim_end_matches('_').len();
    snake.truncate(end);
    if snake.starts_with(|c: char| c.is_ascii_digit()) {
        snake.insert(0, '_');
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::to_snake_case;

    #[test]
    fn snake_case_splits_where_words_begin() {
        let cases = [
            ("Softmax", "softmax"),
            ("SoftmaxUdoPackage", "softmax_udo_package"),
            ("Conv2D", "conv2d"),
            ("Conv2DQuant", "conv2d_quant"),
            ("SynConv2d", "syn_conv2d"),
            ("Int8Quant", "int8_quant"),
            ("MatMulV2", "mat_mul_v2"),
            ("HTTPOp", "http_op"),
            ("ROIAlign", "roi_align"),
            ("LSTM", "lstm"),
            ("GELU_Tanh", "gelu_tanh"),
            ("already_snake", "already_snake"),
            ("__odd__Name__", "odd_name"),
            ("_2x", "_2x"),
            ("x", "x"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(to_snake_case(name), expected, "{name}");
        }
    }
}
