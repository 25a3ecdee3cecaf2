#include "harness/sanitizer_report.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cgconform::harness {
namespace {

using suites::CheckResult;
using suites::Verdict;
using ::testing::HasSubstr;

constexpr const char* own_kernel =
    "void cgconform::workloads::cuda::<unnamed>::add_rows<float>(T1 *, const T1 *, long)";

std::string invalid_write(const std::string& kernel, int thread) {
  return "========= Invalid __global__ write of size 4 bytes\n"
         "=========     at " +
         kernel +
         "+0x120 in rows.cu:41\n"
         "=========     by thread (" +
         std::to_string(thread) +
         ",0,0) in block (0,0,0)\n"
         "=========     Address 0x7f12a0200000 is out of bounds\n"
         "=========     and is 1 bytes after the nearest allocation at 0x7f12a0000000 of size "
         "2,097,152 bytes\n"
         "=========     Saved host backtrace up to driver entry point at kernel launch time\n"
         "=========         Host Frame: cuGraphLaunch [0x1234] in libcuda.so.1\n"
         "========= \n";
}

std::string memcheck_log(const std::string& body, int errors) {
  return "========= COMPUTE-SANITIZER\nstep 1 done\n" + body +
         "========= Program hit cudaErrorLaunchFailure (error 719) due to \"unspecified launch "
         "failure\" on CUDA API call to cudaStreamSynchronize.\n"
         "=========     Saved host backtrace up to driver entry point at error\n"
         "========= \n"
         "========= ERROR SUMMARY: " +
         std::to_string(errors) + " errors\n";
}

TEST(SanitizerReport, MergesTheThreadsOfOneErrorAndKeepsTheKernelPlaceAndAllocation) {
  const SanitizerReport report = parse_sanitizer_report(
      memcheck_log(invalid_write(own_kernel, 0) + invalid_write(own_kernel, 1), 2));
  ASSERT_EQ(report.findings.size(), 1U);
  const SanitizerFinding& finding = report.findings.front();
  EXPECT_EQ(finding.what, "Invalid __global__ write of size 4 bytes");
  EXPECT_EQ(finding.kernel, own_kernel);
  EXPECT_EQ(finding.place, "rows.cu:41");
  EXPECT_EQ(finding.count, 2U);
  EXPECT_THAT(finding.detail, HasSubstr("1 bytes after the nearest allocation"));
  EXPECT_EQ(report.errors, 2U);
}

TEST(SanitizerReport, IsAnIllegalAccessOfTheKernelUnderMemcheckAlsoInALibrary) {
  for (const std::string kernel : {own_kernel, "nvjet_sm90_tst_mma"}) {
    const CheckResult result = judge_sanitizer_report(
        parse_sanitizer_report(memcheck_log(invalid_write(kernel, 0), 1)), "memcheck");
    EXPECT_EQ(result.check_id, "TLG-05");
    EXPECT_EQ(result.verdict, Verdict::fail_illegal_access);
    EXPECT_THAT(result.detail, HasSubstr(kernel));
  }
}

TEST(SanitizerReport, PassesWithoutErrorsAndNotWithoutItsSummary) {
  const auto judged = [](const std::string& text) {
    return judge_sanitizer_report(parse_sanitizer_report(text), "memcheck").verdict;
  };
  EXPECT_EQ(judged("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"),
            Verdict::pass);
  EXPECT_EQ(judged("========= COMPUTE-SANITIZER\n"), Verdict::fail_suite);
  EXPECT_EQ(judged(""), Verdict::fail_suite);
}

TEST(SanitizerReport, KnowsNothingWhereErrorsWereNotPrinted) {
  const SanitizerReport report = parse_sanitizer_report(
      "========= COMPUTE-SANITIZER\n"
      "========= ERROR SUMMARY: 2037 errors\n"
      "========= ERROR SUMMARY: 1037 errors were not printed. Use --print-limit option to adjust "
      "the number of printed errors\n");
  EXPECT_EQ(report.errors, 2037U);
  EXPECT_EQ(report.unprinted, 1037U);
  const CheckResult result = judge_sanitizer_report(report, "initcheck");
  EXPECT_EQ(result.verdict, Verdict::inconclusive_env);
  EXPECT_THAT(result.detail, HasSubstr("1037 errors were not printed"));
}

TEST(SanitizerReport, LeavesNothingOfAWorkerWhoseToolFailedItself) {
  constexpr std::string_view log =
      "========= COMPUTE-SANITIZER\n"
      "========= Internal Sanitizer Error: The Sanitizer failed to handle a hardware exception.\n"
      "=========\n"
      "========= Target application returned an error\n"
      "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n";
  suites::RankReport report;
  report.abnormal_end = suites::AbnormalEnd{.verdict = Verdict::crash};
  report.checks = {{.check_id = "MEM-07", .verdict = Verdict::fail_illegal_access}};
  add_sanitizer_report(parse_sanitizer_report(log), "racecheck", report);
  EXPECT_FALSE(report.abnormal_end.has_value());
  ASSERT_EQ(report.checks.size(), 1U);
  EXPECT_EQ(report.checks[0].check_id, "TLG-05");
  EXPECT_EQ(report.checks[0].verdict, Verdict::inconclusive_env);
  EXPECT_THAT(report.checks[0].detail, HasSubstr("hardware exception"));
}

TEST(SanitizerReport, DoesNotTakeProbesOfTheApiForErrors) {
  const SanitizerReport report = parse_sanitizer_report(memcheck_log("", 1));
  EXPECT_TRUE(report.findings.empty());
}

TEST(SanitizerReport, NamesARaceInThisProgramsKernelAndLeavesLibrariesOut) {
  const std::string race = "========= Error: Race reported between Write access at " +
                           std::string(own_kernel) +
                           "+0x40 in rows.cu:7\n"
                           "=========     and Read access at " +
                           own_kernel +
                           "+0x90 in rows.cu:9 [96 hazards]\n"
                           "========= \n"
                           "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 "
                           "warnings)\n";
  const SanitizerReport report = parse_sanitizer_report(race);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().kernel, own_kernel);
  EXPECT_EQ(report.findings.front().place, "rows.cu:7");
  EXPECT_EQ(report.errors, 1U);
  EXPECT_EQ(judge_sanitizer_report(report, "racecheck").verdict, Verdict::fail_nondeterminism);

  std::string of_library = race;
  for (std::size_t at = of_library.find(own_kernel); at != std::string::npos;
       at = of_library.find(own_kernel)) {
    of_library.replace(at, std::string(own_kernel).size(), "ncclDevKernel_AllReduce_Sum_f32");
  }
  const CheckResult result =
      judge_sanitizer_report(parse_sanitizer_report(of_library), "racecheck");
  EXPECT_EQ(result.verdict, Verdict::pass);
  EXPECT_THAT(result.detail, HasSubstr("concern libraries"));
}

TEST(SanitizerReport, NamesAReadOfMemoryThatNobodyWrote) {
  const std::string text =
      "========= COMPUTE-SANITIZER\n"
      "========= Uninitialized __global__ memory read of size 4 bytes\n"
      "=========     at cgconform::workloads::cuda::uninit(float *, float *)+0x60 in oob.cu:4\n"
      "=========     by thread (0,0,0) in block (0,0,0)\n"
      "=========     Address 0x7f8bae800000\n"
      "========= \n"
      "========= ERROR SUMMARY: 1 error\n";
  const CheckResult result = judge_sanitizer_report(parse_sanitizer_report(text), "initcheck");
  EXPECT_EQ(result.verdict, Verdict::fail_stale_address);
  EXPECT_THAT(result.detail, HasSubstr("oob.cu:4"));

  SanitizerReport of_sixteen_bit = parse_sanitizer_report(text);
  of_sixteen_bit.has_unseen_writes = true;
  const CheckResult unknown = judge_sanitizer_report(of_sixteen_bit, "initcheck");
  EXPECT_EQ(unknown.verdict, Verdict::inconclusive_env);
  EXPECT_THAT(unknown.detail, HasSubstr("take a cell in fp32"));
}

TEST(SanitizerReport, OnlyWideProductsAreWhollySeenByInitcheck) {
  matrix::Cell cell;
  EXPECT_FALSE(has_unseen_writes(cell));
  cell.config.fp8 = matrix::Fp8Format::hybrid;
  EXPECT_TRUE(has_unseen_writes(cell));
  cell.config.fp8 = matrix::Fp8Format::none;
  for (const auto& [dtype, unseen] :
       {std::pair{matrix::ParamsDtype::fp64, false}, std::pair{matrix::ParamsDtype::bf16, true},
        std::pair{matrix::ParamsDtype::fp16, true}}) {
    cell.config.params_dtype = dtype;
    EXPECT_EQ(has_unseen_writes(cell), unseen);
  }
}

}  // namespace
}  // namespace cgconform::harness
