//! From a package's source to a kernel whose arguments and work groups fit.

use opencl3::kernel::Kernel as ClKernel;
use opencl3::program::Program;
use udo_api::TensorDesc;
use udo_api::abi::{GpuArgKind, KernelInfo};

use super::error::from;
use super::{Device, OpenClError, source};

/// Builds the source and finds the kernel in it.
pub(super) fn kernel(
    device: &Device,
    info: &KernelInfo,
    inputs: &[TensorDesc],
    outputs: &[TensorDesc],
) -> Result<ClKernel, OpenClError> {
    let name = info.name();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(OpenClError::BadText { what: "kernel name", text: name.to_owned() });
    }
    let options = format!("{} -cl-kernel-arg-info", info.options());
    if options.contains('\0') {
        return Err(OpenClError::BadText { what: "build options", text: options });
    }
    let text = source::with_prelude(info.source(), name, inputs, outputs);
    let program = Program::create_from_source(&device.context, &text);
    let mut program = program.map_err(from("clCreateProgramWithSource"))?;
    let id = device.id.id();
    if let Err(error) = program.build(&[id], &options) {
        let log = program.get_build_log(id).unwrap_or_default();
        let log = log.trim_matches(['\0', '\n', ' ']).to_owned();
        return Err(if log.is_empty() {
            from("clBuildProgram")(error)
        } else {
            OpenClError::Build { kernel: name.to_owned(), device: device.name.clone(), log }
        });
    }
    let names = program.kernel_names().trim_matches('\0');
    if !names.split(';').any(|n| n == name) {
        return Err(OpenClError::NoKernel { kernel: name.to_owned(), found: names.to_owned() });
    }
    ClKernel::create(&program, name).map_err(from("clCreateKernel"))
}

/// The arguments of a launch, each checked against its parameter.
pub(super) fn arguments(
    info: &KernelInfo,
    kernel: &ClKernel,
    inputs: &[TensorDesc],
    outputs: &[TensorDesc],
) -> Result<Vec<GpuArgKind>, OpenClError> {
    let name = || info.name().to_owned();
    let wanted = kernel.num_args().map_err(from("clGetKernelInfo"))?;
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let found = info.args().len();
    if wanted != found {
        return Err(OpenClError::ArgumentCount { kernel: name(), found, wanted });
    }
    let checked = (0..).zip(info.args()).map(|(index, arg)| {
        let describe = |kind| source::describe(kind, inputs, outputs);
        let (found, wanted) = match arg.get() {
            None => ("of an unknown kind".to_owned(), "a port or a number".to_owned()),
            Some(kind) if arg.is_beyond(inputs.len(), outputs.len()) => {
                let has = format!("one of {} inputs and {} outputs", inputs.len(), outputs.len());
                (describe(kind), has)
            }
            // Drivers may keep no types of parameters.
            Some(kind) => match kernel.get_arg_type_name(index) {
                Ok(parameter) if !source::fits(&parameter, kind, inputs, outputs) => {
                    (describe(kind), format!("{:?}", parameter.trim()))
                }
                Ok(_) | Err(_) => return Ok(kind),
            },
        };
        Err(OpenClError::Argument { kernel: name(), index, found, wanted })
    });
    checked.collect()
}

/// The size of a work group; nothing where the driver picks one.
pub(super) fn group(
    device: &Device,
    info: &KernelInfo,
    kernel: &ClKernel,
) -> Result<Option<[usize; 3]>, OpenClError> {
    let (id, global) = (device.id.id(), info.global_size());
    let divides = |group: [usize; 3]| global.iter().zip(group).all(|(&n, g)| g != 0 && n % g == 0);
    let failed = from("clGetKernelWorkGroupInfo");
    let compiled = kernel.get_compile_work_group_size(id).map_err(&failed)?;
    if let [x, y, z] = compiled[..]
        && ![x, y, z].contains(&0)
    {
        let group = [x, y, z];
        if !divides(group) {
            return Err(OpenClError::Group { kernel: info.name().to_owned(), group, global });
        }
        return Ok(Some(group));
    }
    let most = kernel.get_work_group_size(id).map_err(&failed)?;
    let limits = device.id.max_work_item_sizes().map_err(from("clGetDeviceInfo"))?;
    let taken = |group: [usize; 3]| {
        let items = group.iter().try_fold(1usize, |n, &g| n.checked_mul(g));
        items.is_some_and(|n| n <= most) && group.iter().zip(&limits).all(|(g, limit)| g <= limit)
    };
    Ok(info.local_size().filter(|&group| divides(group) && taken(group)))
}
