//! Shapes of inputs that take images in a format of their own.

use udo_runtime::build::{self, ImageInput, ImageInputError};
use udo_graph::container::Extent;
use udo_runtime::graph::{DimSpec, Graph, Source};

use crate::output::Failure;

/// Why an input takes no images of a format, and what to do.
pub(super) fn failure(error: ImageInputError) -> Failure {
    let help = match &error {
        ImageInputError::OddExtents { name, .. } => format!(
            "give the image's shape as the model takes it: --input-shape {name}=1,3,224,224"
        ),
        _ => "`udo model info MODEL` lists the inputs and their types".to_owned(),
    };
    Failure::new(error).help(help)
}

/// States the extents of an input that are fixed.
pub(super) fn fix_extents(graph: &mut Graph, name: &str, extents: &[Extent]) {
    let Some(&input) =
        graph.inputs.iter().find(|&&id| graph.value(id).is_ok_and(|v| v.name == name))
    else {
        return;
    };
    let Some(Source::Input(of)) =
        graph.values.get_mut(input.index()).map(|value| &mut value.source)
    else {
        return;
    };
    if of.dims.len() == extents.len() {
        for (dim, extent) in of.dims.iter_mut().zip(extents) {
            if let (DimSpec::Named(_) | DimSpec::Unknown, &Extent::Fixed(extent)) = (&*dim, extent)
            {
                *dim = DimSpec::Fixed(extent);
            }
        }
    }
}

/// The shape of an image in its format.
pub(super) fn encoded(extents: &[Extent], image: &ImageInput) -> Option<Vec<Extent>> {
    let dim = |extent: &Extent| match extent {
        Extent::Fixed(extent) => DimSpec::Fixed(*extent),
        Extent::Range { .. } | Extent::Any => DimSpec::Unknown,
    };
    let dims: Vec<DimSpec> = extents.iter().map(dim).collect();
    let encoded = build::encoded_shape(&dims, image.from)?;
    let extent = |(dim, extent): (&DimSpec, &Extent)| match dim {
        DimSpec::Fixed(fixed) => Extent::Fixed(*fixed),
        DimSpec::Named(_) | DimSpec::Unknown => *extent,
    };
    Some(encoded.iter().zip(extents).map(extent).collect())
}
