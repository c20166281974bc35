// Numbers of the zip format that reader and writer share (PKWARE's APPNOTE 6.3).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::io::zip {

// local header    sig u32 | version u16 | flags u16 | method u16 | time u16 | date u16 | crc u32 |
//                 compressed u32 | size u32 | name_len u16 | extra_len u16 | name | extra | data
// directory entry sig u32 | made_by u16 | version u16 | flags u16 | method u16 | time u16 | date u16 | crc u32 |
//                 compressed u32 | size u32 | name_len u16 | extra_len u16 | comment_len u16 | disk u16 |
//                 internal u16 | external u32 | header_offset u32 | name | extra | comment
// end             sig u32 | disk u16 | dir_disk u16 | entries_here u16 | entries u16 | dir_size u32 |
//                 dir_offset u32 | comment_len u16 | comment
// end64           sig u32 | rest u64 | made_by u16 | version u16 | disk u32 | dir_disk u32 | entries_here u64 |
//                 entries u64 | dir_size u64 | dir_offset u64
// end64 locator   sig u32 | disk u32 | end64_offset u64 | disks u32
inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kEntrySignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064b50;
inline constexpr std::uint32_t kLocatorSignature = 0x07064b50;
inline constexpr std::size_t kLocalSize = 30;
inline constexpr std::size_t kEntrySize = 46;
inline constexpr std::size_t kEndSize = 22;
inline constexpr std::size_t kEnd64Size = 56;
inline constexpr std::size_t kLocatorSize = 20;

inline constexpr std::uint16_t kWideExtra = 0x0001;  // the zip64 extra field
inline constexpr std::uint32_t kWide32 = 0xFFFFFFFFu;
inline constexpr std::uint16_t kWide16 = 0xFFFFu;

inline constexpr std::uint16_t kFlagEncrypted = 0x0001;
inline constexpr std::uint16_t kFlagDescriptor = 0x0008;
inline constexpr std::uint16_t kFlagPatch = 0x0020;
inline constexpr std::uint16_t kFlagUtf8 = 0x0800;

inline constexpr std::uint16_t kStored = 0;
inline constexpr std::uint16_t kDeflate = 8;

}  // namespace lockstep::io::zip
