#include "accelerate/transformers/hub/cache/cache_removal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/support.h"
#include "tests/transformers/hub/hub_support.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HubEnvironment;
using testing::message_of;
using testing::names_in;

const std::string kFirst = "0123456789abcdef0123456789abcdef01234567";
const std::string kSecond = "0123456f89abcdef0123456789abcdef01234567";
const std::string kModel = "models--org--name";

// The real file system, but that it fails once `steps` removals are done.
class StoppingFileSystem final : public FileSystem {
 public:
  explicit StoppingFileSystem(int steps) : steps_(steps) {}

  // clang-format off
  std::unique_ptr<WritableFile> create(const fs::path& path) override { return real_.create(path); }
  std::shared_ptr<const FileContent> map(const fs::path& path) override { return real_.map(path); }
  std::string read(const fs::path& path, std::size_t most) override { return real_.read(path, most); }
  FileStatus status(const fs::path& path) override { return real_.status(path); }
  void rename(const fs::path& from, const fs::path& to) override { real_.rename(from, to); }
  void sync_directory(const fs::path& path) override { real_.sync_directory(path); }
  bool remove(const fs::path& path) override { count(path); return real_.remove(path); }
  std::vector<std::string> list(const fs::path& path) override { return real_.list(path); }
  void create_directories(const fs::path& path) override { real_.create_directories(path); }
  bool remove_tree(const fs::path& path) override { count(path); return real_.remove_tree(path); }
  // clang-format on

 private:
  void count(const fs::path& path) {
    if (steps_-- == 0) throw FileError("remove", path, EIO);
  }

  FileSystem& real_ = real_file_system();
  int steps_;
};

// A cache that tests fill.
class HubCacheScan : public HubEnvironment {
 protected:
  [[nodiscard]] fs::path in(const std::string& name) const { return root_ / name; }
  // Adds a blob and a link to it in the snapshot of `commit`.
  void add(const std::string& repo, const std::string& commit, const std::string& file,
           const std::string& text) const {
    folder_.write(repo + "/blobs/" + text, text);
    link(repo, commit, file, "../../blobs/" + text);
  }
  void link(const std::string& repo, const std::string& commit, const std::string& file,
            const std::string& target) const {
    fs::create_directories(in(repo) / "snapshots" / commit);
    fs::create_symlink(target, in(repo) / "snapshots" / commit / file);
  }
  // kModel with two revisions that share a blob.
  void add_two_revisions() const {
    add(kModel, kFirst, "config.json", "shared");
    add(kModel, kFirst, "old.bin", "old");
    link(kModel, kSecond, "config.json", "../../blobs/shared");
    add(kModel, kSecond, "new.bin", "newer");
    folder_.write(kModel + "/refs/main", kSecond);
    folder_.write(kModel + "/refs/refs/pr/1", kFirst);
    for (const auto& commit : {kFirst, kSecond}) {
      folder_.write(kModel + "/trees/" + commit + ".json", "{}");
      folder_.write(kModel + "/.no_exist/" + commit + "/none.json", "");
    }
    folder_.write(".locks/" + kModel + "/etag.lock", "");
  }
  // A content that `repos` share, each with one revision that links to it.
  void add_shared(const std::vector<std::string>& repos) const {
    folder_.write("blobs/.huggingface-shared-blobs", "1\n");
    folder_.write("blobs/aa/" + kHash, "content");
    std::string manifest;
    for (const auto& repo : repos) {
      fs::create_directories(in(repo) / "blobs");
      fs::create_symlink("../../blobs/aa/" + kHash, in(repo) / "blobs/etag");
      link(repo, kFirst, "model.bin", "../../blobs/etag");
      manifest += repo + "/blobs/etag\n";
    }
    folder_.write("blobs/aa/" + kHash + ".refs", manifest);
  }
  [[nodiscard]] CacheScan scan() const { return scan_cache(root_); }
  [[nodiscard]] CacheRemoval plan(const std::vector<std::string>& what) const {
    return plan_removal(scan(), what);
  }
  [[nodiscard]] std::string fault_of(const std::vector<std::string>& what) const {
    return message_of<ConfigError>([&] { (void)plan(what); });
  }
  [[nodiscard]] std::string only_fault() const {
    const CacheScan found = scan();
    EXPECT_TRUE(found.repos.empty());
    return found.faults.size() == 1 ? found.faults[0] : std::to_string(found.faults.size());
  }

  const std::string kHash = std::string(64, 'a');
  testing::TemporaryFolder folder_;
  fs::path root_ = fs::canonical(folder_.path());
};

// --- Scan ----------------------------------------------------------------------------------------

TEST_F(HubCacheScan, CountsABlobOfTwoRevisionsOnce) {
  add_two_revisions();
  const CacheScan found = scan();
  ASSERT_EQ(found.repos.size(), 1U);
  EXPECT_EQ(found.repos[0].cache_id(), "model/org/name");
  EXPECT_EQ(found.repos[0].files, 3U);
  EXPECT_EQ(found.repos[0].size_bytes, 14U);
  EXPECT_EQ(found.size_bytes, 14U);
}

TEST_F(HubCacheScan, RevisionTellsItsRefsAndFiles) {
  add_two_revisions();
  folder_.write(kModel + "/refs/a-tag", kSecond);
  const CachedRevision revision = scan().repos.at(0).revisions.at(1);
  EXPECT_EQ(revision.commit, kSecond);
  EXPECT_EQ(revision.refs, (std::vector<std::string>{"a-tag", "main"}));
  EXPECT_EQ(revision.snapshot, in(kModel) / "snapshots" / kSecond);
  EXPECT_EQ(revision.files, 2U);
  EXPECT_EQ(revision.size_bytes, 11U);
}

TEST_F(HubCacheScan, TimesAreThoseOfTheNewestBlob) {
  add_two_revisions();
  const timespec times[] = {{2'000'000'000, 500}, {2'100'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, in(kModel + "/blobs/old").c_str(), times, 0), 0);
  const CachedRepo repo = scan().repos.at(0);
  EXPECT_EQ(std::chrono::system_clock::to_time_t(repo.last_accessed), 2'000'000'000);
  EXPECT_EQ(std::chrono::system_clock::to_time_t(repo.last_modified), 2'100'000'000);
  EXPECT_EQ(repo.revisions[0].last_modified, repo.last_modified);
  EXPECT_LT(repo.revisions[1].last_modified, repo.last_modified);
}

TEST_F(HubCacheScan, SortsRepositoriesByPathAndTellsDatasets) {
  add("models--b", kFirst, "x", "1");
  add("datasets--c", kFirst, "x", "1");
  add("models--a", kFirst, "x", "1");
  std::string ids;
  for (const auto& repo : scan().repos) ids += repo.cache_id() + " ";
  EXPECT_EQ(ids, "dataset/c model/a model/b ");
}

TEST_F(HubCacheScan, SharedContentCountsOnceForTheCache) {
  add_shared({"models--a", "models--b"});
  const CacheScan found = scan();
  EXPECT_EQ(found.size_bytes, 7U);
  EXPECT_EQ(found.repos.at(1).size_bytes, 7U);
  EXPECT_TRUE(found.faults.empty());
}

TEST_F(HubCacheScan, TellsIncompleteDownloads) {
  folder_.write(kModel + "/blobs/etag.incomplete", "12345");
  const CacheScan found = scan();
  ASSERT_EQ(found.incomplete.size(), 1U);
  EXPECT_EQ(found.incomplete[0].path, in(kModel + "/blobs/etag.incomplete"));
  EXPECT_EQ(found.incomplete[0].size_bytes, 5U);
}

TEST_F(HubCacheScan, EmptyFolderNamesTheCacheOfTheEnvironment) {
  const testing::ScopedEnv cache("HF_HUB_CACHE", root_.c_str());
  add("models--a", kFirst, "x", "1");
  EXPECT_EQ(scan_cache().repos.size(), 1U);
}

TEST_F(HubCacheScan, MissingFolderSaysWhatToDo) {
  const auto message = message_of<FileError>([&] { (void)scan_cache(in("none")); });
  EXPECT_TRUE(contains(message, "there is no cache folder: set HF_HUB_CACHE")) << message;
  const auto file = folder_.write("file", "");
  EXPECT_TRUE(
      contains(message_of<FileError>([&] { (void)scan_cache(file); }), "it is not a folder"));
}

TEST_F(HubCacheScan, LinkWithoutContentIsAFault) {
  link(kModel, kFirst, "x", "../../blobs/none");
  EXPECT_TRUE(contains(only_fault(), "blobs/none', which is missing"));
}

TEST_F(HubCacheScan, RefToAMissingSnapshotIsAFault) {
  fs::create_directories(in(kModel + "/snapshots"));
  folder_.write(kModel + "/refs/main", kFirst);
  EXPECT_TRUE(
      contains(only_fault(), "it names the commit '" + kFirst + "', which has no snapshot"));
}

TEST_F(HubCacheScan, OtherFoldersAreFaultsAndHelpersAreNot) {
  folder_.write(".locks/x", "");
  folder_.write("CACHEDIR.TAG", "");
  folder_.write(".DS_Store", "");
  EXPECT_TRUE(scan().faults.empty());
  folder_.write("spaces--a/snapshots/x", "");
  EXPECT_TRUE(contains(only_fault(), "spaces are left out: only models and datasets are read"));
}

TEST_F(HubCacheScan, DamagedRepositoryLeavesTheOthers) {
  add("models--a", kFirst, "x", "1");
  folder_.write("models--b/snapshots/file", "");
  folder_.write("version.txt", "1");
  EXPECT_EQ(scan().repos.size(), 1U);
  EXPECT_EQ(scan().faults.size(), 2U);
}

// --- What is chosen ------------------------------------------------------------------------------

TEST_F(HubCacheScan, TakesACommitByItsBeginning) {
  add_two_revisions();
  EXPECT_EQ(plan({"01234567"}).snapshots.at(0).filename(), kFirst);
  EXPECT_EQ(plan({"0123456F"}).snapshots.at(0).filename(), kSecond);
  EXPECT_EQ(plan({kFirst}).snapshots.size(), 1U);
}

TEST_F(HubCacheScan, RefusesACommitThatFitsSeveralOrNone) {
  add_two_revisions();
  EXPECT_TRUE(contains(fault_of({"0123456"}), "'0123456' may mean 'model/org/name@" + kFirst));
  EXPECT_TRUE(contains(fault_of({"012345"}), "holds no repository and no commit '012345'"));
  EXPECT_TRUE(contains(fault_of({"model/org/nama"}), "Did you mean 'model/org/name'?"));
  EXPECT_TRUE(contains(fault_of({""}), "holds no repository"));
}

TEST_F(HubCacheScan, TakesARepositoryByItsIdInAnyCase) {
  add("models--Org--name", kFirst, "x", "1");
  for (const char* name :
       {"model/Org/name", "Model/org/NAME", "Org/name", "org/name", " org/name "}) {
    EXPECT_EQ(plan({name}).repos.at(0), in("models--Org--name")) << name;
  }
}

TEST_F(HubCacheScan, RefusesAnIdOfAModelAndADataset) {
  add("models--a", kFirst, "x", "1");
  add("datasets--a", kFirst, "x", "1");
  EXPECT_EQ(fault_of({"a"}), "'a' may mean 'dataset/a', 'model/a': name one of these");
  EXPECT_EQ(plan({"dataset/a"}).repos.at(0), in("datasets--a"));
}

TEST_F(HubCacheScan, CommitOfTwoRepositoriesNeedsARepository) {
  add("models--a", kFirst, "x", "1");
  add("models--b", kFirst, "x", "1");
  EXPECT_TRUE(contains(fault_of({kFirst}), "may mean 'model/a@" + kFirst));
  EXPECT_EQ(plan({"model/b@0123456"}).repos.at(0), in("models--b"));
}

// --- Plan and removal ----------------------------------------------------------------------------

TEST_F(HubCacheScan, SharedBlobsStayAndAllElseOfARevisionGoes) {
  add_two_revisions();
  const CacheRemoval removal = plan({kFirst});
  EXPECT_EQ(removal.freed_bytes, 3U);
  EXPECT_TRUE(removal.faults.empty());
  remove(removal);
  EXPECT_EQ(names_in(in(kModel + "/blobs")), (std::vector<std::string>{"newer", "shared"}));
  EXPECT_EQ(names_in(in(kModel + "/snapshots")), std::vector<std::string>{kSecond});
  EXPECT_EQ(names_in(in(kModel + "/trees")), std::vector<std::string>{kSecond + ".json"});
  EXPECT_EQ(names_in(in(kModel + "/.no_exist")), std::vector<std::string>{kSecond});
  EXPECT_TRUE(names_in(in(kModel + "/refs/refs/pr")).empty());
  EXPECT_TRUE(scan().faults.empty());
}

TEST_F(HubCacheScan, RepositoryGoesWithItsLastRevision) {
  add_two_revisions();
  const CacheRemoval removal = plan({kFirst, kSecond});
  EXPECT_EQ(removal.freed_bytes, 14U);
  remove(removal);
  EXPECT_EQ(names_in(root_), std::vector<std::string>{".locks"});
  EXPECT_TRUE(names_in(in(".locks")).empty());
}

TEST_F(HubCacheScan, RemovingAgainDoesNothing) {
  add_two_revisions();
  const CacheRemoval one = plan({kFirst});
  const CacheRemoval all = plan({"org/name"});
  for (const auto& removal : {one, one, all, all}) EXPECT_NO_THROW(remove(removal));
}

TEST_F(HubCacheScan, StoppedRemovalLeavesNothingWithoutContent) {
  for (const std::vector<std::string>& what : {std::vector{kFirst}, {"org/name"}}) {
    bool is_done = false;
    for (int steps = 0; !is_done; ++steps) {
      fs::remove_all(in(kModel));
      add_two_revisions();
      StoppingFileSystem files(steps);
      try {
        remove(plan(what), files);
        is_done = true;
      } catch (const FileError&) {
        EXPECT_TRUE(scan().faults.empty()) << steps << ": " << scan().faults[0];
        EXPECT_EQ(scan().repos.size(), fs::exists(in(kModel)) ? 1U : 0U) << steps;
      }
    }
  }
}

TEST_F(HubCacheScan, SharedContentGoesWithItsLastLink) {
  add_shared({"models--a", "models--b"});
  const CacheRemoval first = plan({"a"});
  EXPECT_EQ(first.freed_bytes, 0U);
  remove(first);
  EXPECT_TRUE(fs::exists(in("models--b/blobs/etag")));
  const CacheRemoval second = plan({"b"});
  EXPECT_EQ(second.freed_bytes, 7U);
  remove(second);
  EXPECT_FALSE(fs::exists(in("blobs/aa/" + kHash)));
}

TEST_F(HubCacheScan, SharedContentStaysWhereItsUsersAreNotKnown) {
  add_shared({"models--a"});
  fs::remove(in("blobs/aa/" + kHash + ".refs"));
  const CacheRemoval removal = plan({"a"});
  EXPECT_EQ(removal.freed_bytes, 0U);
  remove(removal);
  EXPECT_TRUE(fs::exists(in("blobs/aa/" + kHash)));
}

TEST_F(HubCacheScan, BlobOutsideTheRepositoryStays) {
  const testing::TemporaryFolder elsewhere;
  const auto file = elsewhere.write("file", "mine");
  add_two_revisions();
  link(kModel, kFirst, "x", file);
  link(kModel, kFirst, "y", "../../refs/main");
  for (const auto& [what, freed] : {std::pair(kFirst, 3U), {std::string("org/name"), 54U}}) {
    const CacheRemoval removal = plan({what});
    EXPECT_EQ(removal.freed_bytes, freed);
    ASSERT_FALSE(removal.faults.empty());
    EXPECT_TRUE(contains(removal.faults.back() + removal.faults.front(), file.string()));
    remove(removal);
    EXPECT_TRUE(fs::exists(file));
    EXPECT_EQ(what == kFirst, fs::exists(in(kModel + "/refs/main")));
    fs::remove_all(in(kModel));
    add_two_revisions();
    link(kModel, kFirst, "x", file);
    link(kModel, kFirst, "y", "../../refs/main");
  }
}

TEST_F(HubCacheScan, RepositoryThatIsALinkLosesOnlyTheLink) {
  const testing::TemporaryFolder elsewhere;
  add_two_revisions();
  fs::rename(in(kModel), elsewhere.path() / "moved");
  fs::create_symlink(elsewhere.path() / "moved", in(kModel));
  const CacheRemoval one = plan({kFirst});
  EXPECT_TRUE(one.snapshots.empty() && one.refs.empty() && one.blobs.empty());
  EXPECT_EQ(one.faults.size(), 1U);
  const CacheRemoval all = plan({"org/name"});
  EXPECT_EQ(all.freed_bytes, 0U);
  remove(all);
  EXPECT_FALSE(fs::is_symlink(in(kModel)));
  EXPECT_TRUE(fs::exists(elsewhere.path() / "moved/blobs/old"));
}

TEST_F(HubCacheScan, FolderOfBlobsThatIsALinkStaysAsItIs) {
  const testing::TemporaryFolder elsewhere;
  add_two_revisions();
  fs::rename(in(kModel + "/blobs"), elsewhere.path() / "blobs");
  fs::create_symlink(elsewhere.path() / "blobs", in(kModel + "/blobs"));
  for (const auto& what : {kFirst, kSecond}) {
    const CacheRemoval removal = plan({what});
    EXPECT_EQ(removal.freed_bytes, 0U);
    remove(removal);
    EXPECT_EQ(names_in(elsewhere.path() / "blobs").size(), 3U);
  }
}

TEST_F(HubCacheScan, RefusesPathsOutsideTheCacheBeforeItRemovesAny) {
  const testing::TemporaryFolder elsewhere;
  const auto file = elsewhere.write("file", "mine");
  add_two_revisions();
  fs::create_directory_symlink(elsewhere.path(), in("link"));
  for (const fs::path& path : {file, in("link/file"), root_, in("a/../..") / "file"}) {
    CacheRemoval removal = plan({kFirst});
    removal.blobs.push_back(path);
    (void)message_of<FileError>([&] { remove(removal); });
    EXPECT_TRUE(fs::exists(file));
    EXPECT_EQ(scan().repos.at(0).revisions.size(), 2U);
  }
}

}  // namespace
}  // namespace accelerate
