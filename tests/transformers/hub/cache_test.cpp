#include "accelerate/transformers/hub/cache/cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"
#include "tests/transformers/hub/hub_support.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HubEnvironment;
using testing::message_of;
using testing::ScopedEnv;

const std::string kCommit(40, 'a');
const std::string kOther = "0123456789abcdef0123456789abcdef01234567";

// A cache that tests fill.
class HubCache : public HubEnvironment {
 protected:
  [[nodiscard]] HubOptions at(const std::string& revision) const {
    return {.revision = revision, .cache_dir = folder_.path()};
  }
  [[nodiscard]] fs::path repository(const std::string& name) const { return folder_.path() / name; }
  // The snapshot, with a config.json that links to a blob.
  fs::path add(const std::string& name, const std::string& commit) const {
    folder_.write(name + "/blobs/etag", "{}");
    const fs::path snapshot = repository(name) / "snapshots" / commit;
    fs::create_directories(snapshot);
    fs::create_symlink("../../blobs/etag", snapshot / "config.json");
    return snapshot;
  }
  void point(const std::string& name, const std::string& revision, const std::string& text) const {
    folder_.write(name + "/refs/" + revision, text);
  }
  // What the error says where the only model, org/name, has `text` in refs/main.
  [[nodiscard]] std::string fault_of_ref(const std::string& text) const {
    add("models--org--name", kCommit);
    point("models--org--name", "main", text);
    return message_of<FileError>([&] { (void)resolve_folder("org/name", at("main")); });
  }
  [[nodiscard]] std::string fault_of(const std::string& name, const std::string& revision) const {
    return message_of<Error>([&] { (void)resolve_folder(name, at(revision)); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(HubCache, ReturnsAnExistingFolderAsItIs) {
  EXPECT_EQ(resolve_folder(folder_.path().string(), at("main")), folder_.path());
  EXPECT_EQ(resolve_folder(".", at("../ignored")), ".");
}

TEST_F(HubCache, FindsTheSnapshotOfTheMainBranch) {
  const fs::path snapshot = add("models--org--name", kCommit);
  point("models--org--name", "main", kCommit);
  EXPECT_EQ(resolve_folder("org/name", at("main")), snapshot);
}

TEST_F(HubCache, FindsAModelWithoutAnOrganization) {
  const fs::path snapshot = add("models--bert-base-uncased", kCommit);
  point("models--bert-base-uncased", "main", kCommit);
  EXPECT_EQ(resolve_folder("bert-base-uncased", at("main")), snapshot);
}

TEST_F(HubCache, FindsTheSnapshotOfATag) {
  add("models--org--name", kCommit);
  const fs::path snapshot = add("models--org--name", kOther);
  point("models--org--name", "main", kCommit);
  point("models--org--name", "v2.0", kOther);
  EXPECT_EQ(resolve_folder("org/name", at("v2.0")), snapshot);
}

TEST_F(HubCache, FindsTheSnapshotOfAPullRequest) {
  const fs::path snapshot = add("models--org--name", kCommit);
  point("models--org--name", "refs/pr/7", kCommit);
  EXPECT_EQ(resolve_folder("org/name", at("refs/pr/7")), snapshot);
}

TEST_F(HubCache, FindsTheSnapshotOfACommitWithoutARef) {
  const fs::path snapshot = add("models--org--name", kOther);
  EXPECT_EQ(resolve_folder("org/name", at(kOther)), snapshot);
}

TEST_F(HubCache, ModelsAndDatasetsAreKeptApart) {
  const fs::path snapshot = add("datasets--org--name", kCommit);
  point("datasets--org--name", "main", kCommit);
  HubOptions options = at("main");
  EXPECT_THROW((void)resolve_folder("org/name", options), FileError);
  options.type = RepoType::dataset;
  EXPECT_EQ(resolve_folder("org/name", options), snapshot);
}

TEST_F(HubCache, TakesTheCacheOfTheEnvironmentWhenNoneIsGiven) {
  const fs::path snapshot = add("models--org--name", kCommit);
  point("models--org--name", "main", kCommit);
  const ScopedEnv cache("HF_HUB_CACHE", folder_.path().c_str());
  EXPECT_EQ(resolve_folder("org/name"), snapshot);
}

TEST_F(HubCache, ExpandsTheTildeOfACacheThatIsGiven) {
  const fs::path snapshot = add("models--org--name", kCommit);
  point("models--org--name", "main", kCommit);
  const ScopedEnv home("HOME", folder_.path().c_str());
  EXPECT_EQ(resolve_folder("org/name", {.cache_dir = "~"}), snapshot);
}

TEST_F(HubCache, MissingRepositoryNamesItsFolderAndTheCure) {
  const std::string message = fault_of("org/name", "main");
  EXPECT_TRUE(contains(message, "cannot find '" + repository("models--org--name").string() + "'"));
  EXPECT_TRUE(contains(message, "the cache lacks the model 'org/name'"));
  EXPECT_TRUE(contains(message,
                       "`accelerate hub download org/name --cache-dir " + folder_.path().string()));
  EXPECT_TRUE(contains(message, "or pass a folder")) << message;
}

TEST_F(HubCache, MissingRepositorySuggestsOneOfASimilarName) {
  add("models--org--name", kCommit);
  EXPECT_TRUE(contains(fault_of("org/nmae", "main"), "Did you mean 'org/name'?"));
}

TEST_F(HubCache, MissingCacheIsSaidToBeMissing) {
  const HubOptions options{.cache_dir = folder_.path() / "none"};
  const auto message = message_of<FileError>([&] { (void)resolve_folder("org/name", options); });
  EXPECT_TRUE(contains(message, "there is no cache folder")) << message;
}

TEST_F(HubCache, CureIsTheWholeCommandForADataset) {
  const HubOptions options{
      .revision = "it's", .type = RepoType::dataset, .cache_dir = folder_.path() / "a b"};
  const auto message = message_of<FileError>([&] { (void)resolve_folder("org/name", options); });
  EXPECT_TRUE(contains(
      message,
      "accelerate hub download org/name --repo-type dataset --revision 'it'\\''s' --cache-dir "
      "'" +
          folder_.path().string() + "/a b'`"))
      << message;
}

TEST_F(HubCache, CureSaysThatOfflineModeForbidsIt) {
  const ScopedEnv offline("HF_HUB_OFFLINE", "1");
  EXPECT_TRUE(contains(fault_of("org/name", "main"), "unset HF_HUB_OFFLINE"));
}

TEST_F(HubCache, MissingRevisionListsThoseThatAreThere) {
  add("models--org--name", kCommit);
  point("models--org--name", "main", kCommit);
  point("models--org--name", "refs/pr/7", kCommit);
  const std::string message = fault_of("org/name", "v2");
  EXPECT_TRUE(contains(message, "the cache has no revision 'v2' of the model 'org/name'"));
  EXPECT_TRUE(contains(
      message, "the revisions there: 'main', 'refs/pr/7'; the commits there: '" + kCommit + "'"))
      << message;
}

TEST_F(HubCache, FolderOfRefsIsNoRevision) {
  add("models--org--name", kCommit);
  point("models--org--name", "refs/pr/7", kCommit);
  EXPECT_TRUE(contains(fault_of("org/name", "refs/pr"), "has no revision 'refs/pr'"));
}

TEST_F(HubCache, MissingCommitListsThoseThatAreThere) {
  add("models--org--name", kCommit);
  const std::string message = fault_of("org/name", kOther);
  EXPECT_TRUE(contains(message, "the cache has no such commit of the model 'org/name'"));
  EXPECT_TRUE(contains(message, "the revisions there: none; the commits there: '" + kCommit + "'"));
}

TEST_F(HubCache, RevisionWhoseSnapshotIsMissingNamesTheFolder) {
  point("models--org--name", "main", kCommit);
  const std::string message = fault_of("org/name", "main");
  EXPECT_TRUE(contains(message, "snapshots/" + kCommit + "'"));
  EXPECT_TRUE(contains(message, "no files were downloaded of 'main' of the model 'org/name'"))
      << message;
}

TEST_F(HubCache, ErrorsTellThePathThatWasLookedAt) {
  try {
    (void)resolve_folder("org/name", at("main"));
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.path(), repository("models--org--name"));
  }
}

TEST_F(HubCache, NeitherAFolderNorAnIdIsSaidToBeNeither) {
  const std::string message = fault_of("/no/such/folder", "main");
  EXPECT_TRUE(contains(message, "neither an existing folder (No such file or directory)"));
  EXPECT_TRUE(contains(message, "nor a repository's id")) << message;
}

TEST_F(HubCache, AFileIsNoFolder) {
  const fs::path file = folder_.write("a/file", "");
  EXPECT_TRUE(contains(fault_of(file.string(), "main"), "existing folder (It is not a folder)"));
}

TEST_F(HubCache, NameIsNotCutAtAZeroByte) {
  const std::string name = folder_.path().string() + std::string("\0x", 2);
  EXPECT_THROW((void)resolve_folder(name, at("main")), ConfigError);
}

TEST_F(HubCache, RefusesRevisionsThatLeaveTheRepository) {
  add("models--org--name", kCommit);
  for (const auto* revision :
       {"", "..", "../snapshots", "a/../../b", "/etc/passwd", "a\\..", "refs/pr/.."}) {
    EXPECT_THROW((void)resolve_folder("org/name", at(revision)), ConfigError) << revision;
  }
}

TEST_F(HubCache, RevisionIsNotCutAtAZeroByte) {
  add("models--org--name", kCommit);
  point("models--org--name", "main", kCommit);
  EXPECT_THROW((void)resolve_folder("org/name", at(std::string("main\0", 5))), ConfigError);
}

TEST_F(HubCache, RefusesAnEmptyRef) {
  EXPECT_TRUE(contains(fault_of_ref(""), "but holds 0 bytes. Remove the file."));
}

TEST_F(HubCache, RefusesARefThatEndsInANewline) {
  EXPECT_TRUE(contains(fault_of_ref(kCommit + "\n"), "but holds 41 bytes: '" + kCommit + "?'"));
}

TEST_F(HubCache, RefusesARefThatIsAPath) {
  EXPECT_TRUE(contains(fault_of_ref("../../../etc"), "but holds 12 bytes: '../../../etc'"));
}

TEST_F(HubCache, RefusesARefInUpperCase) {
  EXPECT_TRUE(contains(fault_of_ref(std::string(40, 'A')), "40 lower-case hexadecimal digits"));
}

TEST_F(HubCache, RefusesARefOfTooManyDigits) {
  EXPECT_TRUE(contains(fault_of_ref(kCommit + "a"), "but holds 41 bytes"));
}

TEST_F(HubCache, RefusesARefWithALetterThatIsNoDigit) {
  EXPECT_TRUE(contains(fault_of_ref(std::string(40, 'g')), "but holds 40 bytes: 'gggg"));
}

TEST_F(HubCache, LongRefIsCutInTheMessage) {
  EXPECT_TRUE(contains(fault_of_ref(std::string(500, 'x')), std::string(120, 'x') + "…'"));
}

TEST_F(HubCache, RefusesAHugeRefWithoutReadingIt) {
  point("models--org--name", "main", "");
  fs::resize_file(repository("models--org--name") / "refs/main", 1ULL << 40U);
  EXPECT_TRUE(contains(fault_of("org/name", "main"), "but holds 1099511627776 bytes. Remove"));
}

TEST_F(HubCache, MessagesHoldNoControlCharacters) {
  const std::string message = fault_of_ref("\x1b[31m\x7f\xff");
  EXPECT_TRUE(contains(message, "'?[31m?\?'")) << message;
  EXPECT_FALSE(contains(fault_of("org/name", "\x1b[31m"), "\x1b"));
}

TEST_F(HubCache, FindsAFileBehindItsLink) {
  const fs::path snapshot = add("models--org--name", kCommit);
  point("models--org--name", "main", kCommit);
  EXPECT_EQ(find_file("org/name", "config.json", at("main")), snapshot / "config.json");
}

TEST_F(HubCache, FindsAFileInASubfolder) {
  folder_.write("models--org--name/snapshots/" + kCommit + "/a/b.json", "{}");
  const auto file = find_file("org/name", "a/b.json", at(kCommit));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->string().ends_with(kCommit + "/a/b.json"));
}

TEST_F(HubCache, FindsAFileOfALocalFolder) {
  const fs::path file = folder_.write("config.json", "{}");
  EXPECT_EQ(find_file(folder_.path().string(), "config.json"), file);
}

TEST_F(HubCache, AbsentFilesAndFoldersAreNoFiles) {
  const fs::path snapshot = add("models--org--name", kCommit);
  fs::create_directory(snapshot / "onnx");
  for (const char* name : {"none", "onnx", "onnx/none", "config.json/none", "none/none"}) {
    EXPECT_EQ(find_file("org/name", name, at(kCommit)), std::nullopt) << name;
  }
}

TEST_F(HubCache, LinkToAFolderIsNoFile) {
  fs::create_symlink("onnx", add("models--org--name", kCommit) / "link");
  folder_.write("models--org--name/snapshots/" + kCommit + "/onnx/model.json", "{}");
  EXPECT_EQ(find_file("org/name", "link", at(kCommit)), std::nullopt);
}

TEST_F(HubCache, AFileOfAnAbsentRepositoryIsAnError) {
  EXPECT_THROW((void)find_file("org/name", "config.json", at("main")), FileError);
}

TEST_F(HubCache, LinkToAMissingBlobIsAnErrorWithTheCommand) {
  add("models--org--name", kCommit);
  fs::remove(repository("models--org--name") / "blobs/etag");
  const auto message =
      message_of<FileError>([&] { (void)find_file("org/name", "config.json", at(kCommit)); });
  EXPECT_TRUE(contains(message, "link to '../../blobs/etag', which does not exist"));
  EXPECT_TRUE(contains(message, "accelerate hub download org/name --revision " + kCommit))
      << message;
}

TEST_F(HubCache, LinkToNothingInALocalFolderIsAnError) {
  fs::create_symlink("none", folder_.path() / "config.json");
  const auto message =
      message_of<FileError>([&] { (void)find_file(folder_.path().string(), "config.json"); });
  EXPECT_TRUE(contains(message, "Download or copy the folder's files again.")) << message;
}

TEST_F(HubCache, RefusesFileNamesThatLeaveTheFolder) {
  const std::string with_zero("config.json\0", 12);
  for (const std::string& name : {std::string(), std::string("../x"), std::string("a/../../x"),
                                  std::string("/etc/passwd"), std::string("a\\..\\x"), with_zero}) {
    EXPECT_THROW((void)find_file(folder_.path().string(), name), ConfigError) << name;
  }
}

}  // namespace
}  // namespace accelerate
