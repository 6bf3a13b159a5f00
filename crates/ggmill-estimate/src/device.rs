//! The names and numbers of devices.

/// The name of a device in an estimate: `CPU` is 0, the host; `GPU0` is 1.
pub fn device_name(device: usize) -> String {
    device.checked_sub(1).map_or_else(|| "CPU".to_owned(), |number| format!("GPU{number}"))
}

/// The most devices beside the host: as many as llama.cpp takes.
pub const MAX_DEVICES: usize = 16;

/// What the names of GPUs begin with: `GPU`, and the backends of llama.cpp that number their devices.
const GPUS: [&str; 8] = ["GPU", "CUDA", "ROCm", "MUSA", "SYCL", "Vulkan", "CANN", "RPC"];

/// The device of a name in any case: `CPU`, or `GPU` or the name of a backend of llama.cpp, and a
/// number from 0. `None` where the text is not such a name, and for more than [`MAX_DEVICES`].
///
/// ```
/// use ggmill_estimate::device_number;
/// assert_eq!(device_number("cpu"), Some(0));
/// assert_eq!(device_number("CUDA1"), Some(2));
/// assert_eq!(device_number("1"), None);
/// assert_eq!(device_number("CPU0"), None);
/// assert_eq!(device_number("GPU16"), None);
/// ```
pub fn device_number(name: &str) -> Option<usize> {
    if name.eq_ignore_ascii_case("cpu") {
        return Some(0);
    }
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = name.strip_suffix(digits)?;
    if !GPUS.iter().any(|known| known.eq_ignore_ascii_case(letters)) {
        return None;
    }
    digits.parse::<usize>().ok()?.checked_add(1).filter(|&device| device <= MAX_DEVICES)
}
