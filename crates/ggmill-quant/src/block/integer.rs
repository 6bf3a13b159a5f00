//! Plain integers: read as the nearest `f32`, never written from one.

use ggmill_core::GgmlType;

use super::Decode;

macro_rules! integers {
    ($($name:ident $int:ty, $bytes:literal;)*) => {$(
        pub(crate) struct $name;

        impl Decode<1, $bytes> for $name {
            const TYPE: GgmlType = GgmlType::$name;

            #[inline(always)]
            fn decode(block: &[u8; $bytes], out: &mut [f32; 1]) {
                *out = [<$int>::from_le_bytes(*block) as f32];
            }
        }
    )*};
}

integers! {
    I8 i8, 1;
    I16 i16, 2;
    I32 i32, 4;
    I64 i64, 8;
}
