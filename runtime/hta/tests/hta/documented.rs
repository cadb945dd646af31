//! `docs/hta-bytecode.md` lists every instruction, field, SoC and limit.

use std::path::Path;

use udo_hta::{INSTRUCTIONS, Kind, Limit, Lines, SOCS, TileWindow};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hta-bytecode.md");
    std::fs::read_to_string(path).unwrap()
}

/// Returns the cells of the table row that begins with `first_cells`.
#[track_caller]
fn row(page: &str, first_cells: &[&str]) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let mut rows = rows.map(|line| line.split('|').map(str::trim).skip(1).collect::<Vec<_>>());
    let row = rows.find(|cells| cells.starts_with(first_cells));
    row.unwrap_or_else(|| panic!("no row {first_cells:?}")).into_iter().map(str::to_owned).collect()
}

#[test]
fn every_instruction_is_documented_with_its_fields() {
    let page = page();
    for (code, name, fields) in INSTRUCTIONS {
        let cells = row(&page, &[&code.to_string(), name]);
        let listed = cells[2].split(", ").map(|field| field.split(' ').next().unwrap());
        let listed: Vec<_> = listed.filter(|field| !field.is_empty()).collect();
        assert_eq!(listed, *fields, "{name}");
    }
    for (kind, fields) in [("window", TileWindow::FIELDS), ("lines", Lines::FIELDS)] {
        let cell = &row(&page, &[kind])[2];
        let mut start = 0;
        for field in fields {
            let offset = cell[start..].find(&format!("`{field}`"));
            start += offset.unwrap_or_else(|| panic!("{field} is not in its place in {cell:?}"));
        }
    }
}

#[test]
fn every_soc_is_documented_with_its_limits() {
    let page = page();
    let kinds = [
        Kind::Conv,
        Kind::Depthwise,
        Kind::FullyConnected,
        Kind::Add,
        Kind::Mul,
        Kind::Concat,
        Kind::MaxPool,
        Kind::AveragePool,
        Kind::Lookup,
        Kind::Reshape,
        Kind::Resize,
        Kind::Softmax,
    ];
    for soc in SOCS {
        let cells = row(&page, &[&format!("`{}`", soc.name)]);
        let expected = [
            soc.id.to_string(),
            format!("{} KiB", soc.sram_bytes >> 10),
            format!("{} KiB", soc.weight_bytes >> 10),
            soc.extent.to_string(),
        ];
        assert_eq!(cells[1..5], expected, "{}", soc.name);
    }
    for kind in kinds {
        let limits = SOCS.iter().map(|soc| soc.operators.iter().find(|limit| limit.kind == kind));
        let expected = limits.map(|limit| match limit {
            None => "-".to_owned(),
            Some(&Limit { kernel: 1, inputs, .. }) => inputs.to_string(),
            Some(Limit { kernel, stride, dilation, .. }) => {
                format!("{kernel}, {stride}, {dilation}")
            }
        });
        let cells = row(&page, &[kind.name()]);
        assert_eq!(cells[1..=SOCS.len()], expected.collect::<Vec<_>>(), "{}", kind.name());
    }
}
