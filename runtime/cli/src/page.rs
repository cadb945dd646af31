//! Pages of their own: one file that asks for nothing besides, which a browser is told to hold them to.

use serde_json::Value;

/// Colours and type of all pages, light and dark.
const THEME: &str = include_str!("page/theme.css");

/// The contents, script and style of a page.
pub(crate) struct Page<'a> {
    /// A text.
    pub(crate) title: &'a str,
    /// Behind the theme.
    pub(crate) style: &'a str,
    /// Markup.
    pub(crate) body: &'a str,
    /// Behind the body.
    pub(crate) script: &'a str,
}

impl Page<'_> {
    /// The file.
    pub(crate) fn text(&self) -> String {
        let Self { title, style, body, script } = self;
        let title = escaped(title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{THEME}{style}</style>\n</head>\n<body>\n{body}\
             <script>\n{script}</script>\n</body>\n</html>\n"
        )
    }
}

/// A text as it stands in markup and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns an element with data for the script. JSON has `<` only in strings, where it is escaped, so the data cannot
/// end the element.
pub(crate) fn data(id: &str, value: &Value) -> String {
    let json = value.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_no_markup() {
        assert_eq!(escaped("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
        let title = Page { title: "</title>", style: "", body: "", script: "" }.text();
        assert!(title.contains("<title>&lt;/title&gt;</title>"), "{title}");
    }

    #[test]
    fn data_stay_in_their_element_and_are_what_they_were() {
        let value = Value::from("</script><!--<script>\n\u{2028}\"é");
        let text = data("d", &value);
        let json = text.split_once('>').unwrap().1.trim_end().strip_suffix("</script>").unwrap();
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<Value>(json).unwrap(), value);
    }
}
