//! Functions of vectors of floats.

use bytes::Bytes;

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

fn floats(value: &[u8]) -> impl Iterator<Item = f32> + Clone + '_ {
    value.as_chunks::<4>().0.iter().map(|chunk| f32::from_be_bytes(*chunk))
}

fn dot(a: &[u8], b: &[u8]) -> f32 {
    floats(a).zip(floats(b)).map(|(x, y)| x * y).sum()
}

/// The similarity, between 0 and 1 for vectors of length one. Cosine is not defined for a vector of zeros.
pub(super) fn similarity(kind: Similarity, a: &[u8], b: &[u8]) -> Result<Bytes, &'static str> {
    let result = match kind {
        Similarity::Cosine => {
            let norms = dot(a, a) * dot(b, b);
            if norms == 0.0 {
                return Err("Function system.similarity_cosine doesn't support all-zero vectors.");
            }
            (1.0 + dot(a, b) / norms.sqrt()) / 2.0
        }
        Similarity::Euclidean => {
            let squared: f32 = floats(a).zip(floats(b)).map(|(x, y)| (x - y) * (x - y)).sum();
            1.0 / (1.0 + squared)
        }
        Similarity::DotProduct => (1.0 + dot(a, b)) / 2.0,
    };
    Ok(Bytes::copy_from_slice(&result.to_be_bytes()))
}
