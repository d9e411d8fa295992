// Bundle adjustment of a BAL problem with Ceres, on the same objective as daba:
//   F = sum 1/2 rho(w^2 |e|^2),  e = R p - lambda (l - t),  p = (u, d1 + d2 s + d3 s^2),  s = |u|^2,
// where e is the rotated ray R p projected on the plane normal to delta = l - t.
//
// The residual given to Ceres has two entries, not three. In the camera frame let n = R^T delta / |delta| and let H be
// the Householder reflection that takes n to the optical axis; the third entry of H p is +-(n.p), the others
//   r = u - m h,   m = n_xy,   h = (m.u) / (1 + |n_z|) + sign(n_z) p_z
// are e in an orthonormal basis: |r| = |e|. With a 9-dof camera block Ceres then runs its <2,3,9> Schur kernels.
//
// With --error pixel it is the reprojection error of BAL's own cameras, as other solvers have it,
//   r = f (1 + k1 s + k2 s^2) m - x,   m = y_xy / y_z,   s = |m|^2,   y = R^T (l - t),
// where signs are such that cameras look along +z. Then (d1, d2, d3) of a camera block are (f, k1, k2).
//
// Prints one JSON object. Exit code: 0 solved, 1 the solver (or --check) failed, 2 bad input or options.
#include <ceres/ceres.h>
#include <ceres/rotation.h>
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using Vec3 = Eigen::Vector3d;
using Mat3 = Eigen::Matrix3d;
using Mat23 = Eigen::Matrix<double, 2, 3>;

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << "ceres_ba: " << message << "\n";
  std::exit(2);
}

struct Observation {
  int camera, point;
  double ux, uy, weight;
};

// A camera block is (rotation, centre, d1, d2, d3); the rotation is an Eigen quaternion (x, y, z, w) or an angle axis.
struct Scene {
  int num_cameras = 0, num_points = 0, stride = 0;
  std::vector<Observation> observations;
  std::vector<double> cameras, points;
};

Scene ReadBal(const std::string& path, bool quaternion, bool pixel) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    if (!file || !(content << file.rdbuf())) Fail("cannot read " + path);
    text = content.str();
  }
  const char* cursor = text.c_str();
  auto number = [&cursor]() {
    char* end = nullptr;
    const double value = std::strtod(cursor, &end);
    if (end == cursor || !std::isfinite(value)) Fail("not a BAL file: a number is missing or not finite");
    cursor = end;
    return value;
  };
  auto integer = [&number](double low, double high, const char* what) {
    const double value = number();
    if (!(value >= low && value < high) || value != std::floor(value)) Fail(std::string("not a BAL file: bad ") + what);
    return static_cast<int>(value);
  };
  Scene scene;
  scene.num_cameras = integer(1, 1e8, "number of cameras");
  scene.num_points = integer(1, 1e9, "number of points");
  const size_t num_observations = integer(1, 2e9, "number of observations");
  const size_t numbers = 4 * num_observations + 9 * size_t(scene.num_cameras) + 3 * size_t(scene.num_points);
  if (numbers > text.size()) Fail("not a BAL file: it is shorter than its header says");
  scene.observations.resize(num_observations);
  for (Observation& o : scene.observations) {
    o.camera = integer(0, scene.num_cameras, "camera index");
    o.point = integer(0, scene.num_points, "point index");
    o.ux = number();
    o.uy = number();
  }
  scene.stride = quaternion ? 10 : 9;
  scene.cameras.resize(size_t(scene.stride) * scene.num_cameras);
  std::vector<double> focal(scene.num_cameras);
  for (int i = 0; i < scene.num_cameras; ++i) {
    double bal[9], inverse[3], *camera = &scene.cameras[size_t(scene.stride) * i];
    for (double& x : bal) x = number();
    const double f = focal[i] = bal[6];
    if (f <= 0) Fail("a focal length is not positive");
    for (int k = 0; k < 3; ++k) inverse[k] = -bal[k];
    if (quaternion) {
      double q[4];  // Ceres' order: w, x, y, z
      ceres::AngleAxisToQuaternion(inverse, q);
      std::copy(q + 1, q + 4, camera);
      camera[3] = q[0];
    } else {
      std::copy(inverse, inverse + 3, camera);
    }
    double* rest = camera + scene.stride - 6;
    ceres::AngleAxisRotatePoint(inverse, bal + 3, rest);
    rest[3] = pixel ? f : 1;
    rest[4] = pixel ? bal[7] : bal[7] * f * f;
    rest[5] = pixel ? bal[8] : bal[8] * f * f * f * f;
  }
  scene.points.resize(3 * size_t(scene.num_points));
  for (double& x : scene.points) x = -number();
  for (Observation& o : scene.observations) {
    const double f = pixel ? 1 : focal[o.camera];
    o.ux /= -f;
    o.uy /= -f;
    o.weight = pixel ? 1 : f * std::sqrt(1 + o.ux * o.ux + o.uy * o.uy);
  }
  return scene;
}

// y = R^T (l - t): the point in the camera frame.
template <bool kQuaternion, typename T>
Eigen::Matrix<T, 3, 1> InCamera(const T* camera, const T* point) {
  using V = Eigen::Matrix<T, 3, 1>;
  const T* centre = camera + (kQuaternion ? 4 : 3);
  const V delta(point[0] - centre[0], point[1] - centre[1], point[2] - centre[2]);
  V y;
  if constexpr (kQuaternion) {
    y = Eigen::Map<const Eigen::Quaternion<T>>(camera).conjugate() * delta;
  } else {
    const T inverse[3] = {-camera[0], -camera[1], -camera[2]};
    ceres::AngleAxisRotatePoint(inverse, delta.data(), y.data());
  }
  return y;
}

template <bool kQuaternion>
Mat3 RotationOf(const double* camera) {
  Mat3 R;
  if constexpr (kQuaternion) {
    R = Eigen::Map<const Eigen::Quaterniond>(camera).toRotationMatrix();
  } else {
    ceres::AngleAxisToRotationMatrix(camera, R.data());
  }
  return R;
}

// Jacobians of both blocks from dr/dl and dr/dd: with R <- exp(w) R, dr/dt = -dr/dl and dr/dw = dr/dl [delta]x, which
// is mapped to the block's own rotation parameters.
template <bool kQuaternion>
void PutJacobians(const double* camera, const Vec3& delta, const Mat23& dl, const Mat23& dd, double** jacobians) {
  constexpr int kRotation = kQuaternion ? 4 : 3;
  if (jacobians[1]) Eigen::Map<Eigen::Matrix<double, 2, 3, Eigen::RowMajor>>{jacobians[1]} = dl;
  if (!jacobians[0]) return;
  Eigen::Map<Eigen::Matrix<double, 2, kRotation + 6, Eigen::RowMajor>> J(jacobians[0]);
  Mat23 dw;
  dw.row(0) = dl.row(0).cross(delta.transpose());
  dw.row(1) = dl.row(1).cross(delta.transpose());
  if constexpr (kQuaternion) {
    // EigenQuaternionManifold: q <- exp(z) q with z = w / 2. The columns of B = dq/dz are orthonormal, so the
    // ambient derivative 2 dr/dw B^T gives 2 dr/dw in the tangent space.
    const double x = camera[0], y = camera[1], z = camera[2], w = camera[3];
    Eigen::Matrix<double, 3, 4> Bt;
    Bt << w, -z, y, -x, z, w, -x, -y, -y, x, w, -z;
    J.template leftCols<4>() = 2 * dw * Bt;
  } else {
    const Vec3 r(camera[0], camera[1], camera[2]);  // exp(r + dr) = exp(L dr) exp(r)
    const double t2 = r.squaredNorm(), t = std::sqrt(t2);
    const bool tiny = t2 < 1e-8;
    const double A = tiny ? 0.5 - t2 / 24 : (1 - std::cos(t)) / t2;
    const double B = tiny ? 1.0 / 6 - t2 / 120 : (t - std::sin(t)) / (t2 * t);
    Mat3 X;
    X << 0, -r[2], r[1], r[2], 0, -r[0], -r[1], r[0], 0;
    J.template leftCols<3>() = dw * (Mat3::Identity() + A * X + B * X * X);
  }
  J.template middleCols<3>(kRotation) = -dl;
  J.template rightCols<3>() = dd;
}

// The residual for Ceres' automatic differentiation: r above (size 2), or the paper's e in the camera frame (size 3).
template <bool kQuaternion, int kSize>
struct RayError {
  double ux, uy, weight;

  template <typename T>
  bool operator()(const T* camera, const T* point, T* residual) const {
    using V = Eigen::Matrix<T, 3, 1>;
    const T* d = camera + (kQuaternion ? 7 : 6);
    const V y = InCamera<kQuaternion>(camera, point);
    const double s = ux * ux + uy * uy;
    const T pz = d[0] + s * (d[1] + s * d[2]);
    if constexpr (kSize == 3) {
      const V p(T(ux), T(uy), pz);
      Eigen::Map<V> e(residual);
      e = weight * (p - y * (y.dot(p) / y.squaredNorm()));
    } else {
      const V n = y / y.norm();
      const T az = n[2] < 0.0 ? -n[2] : n[2];
      const T h = (ux * n[0] + uy * n[1]) / (1.0 + az) + (n[2] < 0.0 ? -pz : pz);
      residual[0] = weight * (ux - h * n[0]);
      residual[1] = weight * (uy - h * n[1]);
    }
    return true;
  }
};

// The same r with its derivatives by hand: dr/dl = G R^T with G = dr/dn (I - n n^T) / |delta|, and
// dr/dd = -sign(n_z) m (1, s, s^2).
template <bool kQuaternion>
class AnalyticRayError : public ceres::SizedCostFunction<2, kQuaternion ? 10 : 9, 3> {
 public:
  AnalyticRayError(double ux, double uy, double weight) : u_(ux, uy), weight_(weight) {}

  bool Evaluate(double const* const* parameters, double* residual, double** jacobians) const override {
    constexpr int kRotation = kQuaternion ? 4 : 3;
    const double* camera = parameters[0];
    const Eigen::Map<const Vec3> centre(camera + kRotation), d(camera + kRotation + 3), point(parameters[1]);
    const Vec3 delta = point - centre;
    const Mat3 R = RotationOf<kQuaternion>(camera);
    const double inverse_norm = 1 / delta.norm(), s = u_.squaredNorm();
    const Vec3 n = R.transpose() * delta * inverse_norm;
    const Eigen::Vector2d m = n.head<2>();
    const double sign = n[2] < 0 ? -1 : 1, c = 1 / (1 + sign * n[2]), a = m.dot(u_);
    const double h = a * c + sign * (d[0] + s * (d[1] + s * d[2]));
    Eigen::Map<Eigen::Vector2d>{residual} = weight_ * (u_ - h * m);
    if (!jacobians) return true;

    Mat23 dn;
    dn.leftCols<2>() = -c * m * u_.transpose();
    dn(0, 0) -= h;
    dn(1, 1) -= h;
    dn.col(2) = (sign * a * c * c) * m;
    const Eigen::Vector2d along = dn * n;
    const Mat23 dl = (weight_ * inverse_norm) * (dn - along * n.transpose()) * R.transpose();
    const Mat23 dd = (-sign * weight_) * m * Eigen::RowVector3d(1, s, s * s);
    PutJacobians<kQuaternion>(camera, delta, dl, dd, jacobians);
    return true;
  }

 private:
  const Eigen::Vector2d u_;
  const double weight_;
};

// The reprojection error of BAL's cameras, for automatic differentiation and by hand.
template <bool kQuaternion>
struct PixelError {
  double x, y;

  template <typename T>
  bool operator()(const T* camera, const T* point, T* residual) const {
    const T* k = camera + (kQuaternion ? 7 : 6);
    const Eigen::Matrix<T, 3, 1> seen = InCamera<kQuaternion>(camera, point);
    const T m[2] = {seen[0] / seen[2], seen[1] / seen[2]};
    const T s = m[0] * m[0] + m[1] * m[1];
    const T zoom = k[0] * (1.0 + s * (k[1] + s * k[2]));
    residual[0] = zoom * m[0] - x;
    residual[1] = zoom * m[1] - y;
    return true;
  }
};

template <bool kQuaternion>
class AnalyticPixelError : public ceres::SizedCostFunction<2, kQuaternion ? 10 : 9, 3> {
 public:
  AnalyticPixelError(double x, double y) : x_(x, y) {}

  bool Evaluate(double const* const* parameters, double* residual, double** jacobians) const override {
    const double* camera = parameters[0];
    const Eigen::Map<const Vec3> centre(camera + (kQuaternion ? 4 : 3)), k(camera + (kQuaternion ? 7 : 6)),
        point(parameters[1]);
    const Vec3 delta = point - centre;
    const Mat3 R = RotationOf<kQuaternion>(camera);
    const Vec3 y = R.transpose() * delta;
    const Eigen::Vector2d m = y.head<2>() / y[2];
    const double s = m.squaredNorm(), bend = 1 + s * (k[1] + s * k[2]);
    Eigen::Map<Eigen::Vector2d>{residual} = k[0] * bend * m - x_;
    if (!jacobians) return true;

    const Eigen::Matrix2d dm =
        k[0] * (bend * Eigen::Matrix2d::Identity() + (2 * k[1] + 4 * k[2] * s) * m * m.transpose());
    Mat23 dy;
    dy.leftCols<2>() = dm / y[2];
    dy.col(2) = -(dm * m) / y[2];
    const Mat23 dk = m * Eigen::RowVector3d(bend, k[0] * s, k[0] * s * s);
    PutJacobians<kQuaternion>(camera, delta, dy * R.transpose(), dk, jacobians);
    return true;
  }

 private:
  const Eigen::Vector2d x_;
};

template <bool kQuaternion>
ceres::CostFunction* PixelCost(const std::string& jacobian, const Observation& o) {
  if (jacobian == "analytic") return new AnalyticPixelError<kQuaternion>(o.ux, o.uy);
  using Error = PixelError<kQuaternion>;
  return new ceres::AutoDiffCostFunction<Error, 2, kQuaternion ? 10 : 9, 3>(new Error{o.ux, o.uy});
}

template <bool kQuaternion, int kSize>
ceres::CostFunction* AutoCost(const Observation& o) {
  using Error = RayError<kQuaternion, kSize>;
  return new ceres::AutoDiffCostFunction<Error, kSize, kQuaternion ? 10 : 9, 3>(new Error{o.ux, o.uy, o.weight});
}

template <bool kQuaternion>
ceres::CostFunction* MakeCost(const std::string& jacobian, const Observation& o) {
  if (jacobian == "analytic") return new AnalyticRayError<kQuaternion>(o.ux, o.uy, o.weight);
  return jacobian == "auto" ? AutoCost<kQuaternion, 2>(o) : AutoCost<kQuaternion, 3>(o);
}

ceres::CostFunction* MakeCost(bool quaternion, bool pixel, const std::string& jacobian, const Observation& o) {
  if (pixel) return quaternion ? PixelCost<true>(jacobian, o) : PixelCost<false>(jacobian, o);
  return quaternion ? MakeCost<true>(jacobian, o) : MakeCost<false>(jacobian, o);
}

std::unique_ptr<ceres::Manifold> CameraManifold() {
  using Camera = ceres::ProductManifold<ceres::EigenQuaternionManifold, ceres::EuclideanManifold<6>>;
  return std::make_unique<Camera>(ceres::EigenQuaternionManifold(), ceres::EuclideanManifold<6>());
}

// Largest relative differences over the observations at the start: |r| against |e|, the gradient of |r|^2 / 2 against
// that of |e|^2 / 2, and the analytic against the automatic derivatives of r, all in the tangent space.
bool Check(const Scene& scene, bool quaternion, bool pixel) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const int size = scene.stride;
  Matrix plus = Matrix::Identity(size, 9);
  const auto manifold = CameraManifold();
  double value = 0, gradient = 0, jacobian = 0;
  for (const Observation& o : scene.observations) {
    const double* parameters[2] = {&scene.cameras[size_t(size) * o.camera], &scene.points[3 * size_t(o.point)]};
    if (quaternion) manifold->PlusJacobian(parameters[0], plus.data());
    Matrix J[3];
    Eigen::VectorXd r[3];
    const char* kind[3] = {"analytic", "auto", "auto3"};
    for (int k = 0; k < 3; ++k) {
      const std::unique_ptr<ceres::CostFunction> cost(MakeCost(quaternion, pixel, kind[k], o));
      const int rows = cost->num_residuals();
      Matrix camera(rows, size), point(rows, 3);
      double* blocks[2] = {camera.data(), point.data()};
      r[k].resize(rows);
      cost->Evaluate(parameters, r[k].data(), blocks);
      J[k].resize(rows, 12);
      J[k] << camera * plus, point;
    }
    const Eigen::VectorXd g = J[0].transpose() * r[0], g3 = J[2].transpose() * r[2];
    value = std::max(value, std::abs(r[0].norm() - r[2].norm()) / o.weight);
    gradient = std::max(gradient, (g - g3).norm() / (J[2].norm() * (1 + r[2].norm())));
    jacobian = std::max(jacobian, (J[0] - J[1]).norm() / J[1].norm());
  }
  std::printf("{\"value\": %.3e, \"gradient\": %.3e, \"jacobian\": %.3e}\n", value, gradient, jacobian);
  return value < 1e-9 && gradient < 1e-9 && jacobian < 1e-9;
}

const char* const kUsage =
    "usage: ceres_ba FILE|- [--linear-solver dense_schur|sparse_schur|iterative_schur|sparse_normal_cholesky|cgnr]\n"
    "  [--preconditioner identity|jacobi|schur_jacobi|cluster_jacobi|cluster_tridiagonal] [--explicit-schur]\n"
    "  [--error ray|pixel] [--jacobian analytic|auto|auto3] [--rotation quaternion|angle_axis]\n"
    "  [--dense-library eigen|lapack]\n"
    "  [--loss trivial|huber|softl1|cauchy] [--loss-radius PIXELS] [--iterations N] [--max-seconds S] [--threads N]\n"
    "  [--inner-iterations] [--initial-radius R] [--eta E] [--check]\n";

std::string Lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

double ToNumber(const std::string& option, const std::string& text, double low, bool whole) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value >= low) || value > 1e9 || (whole && value != std::floor(value)))
    Fail("bad value '" + text + "' for --" + option);
  return value;
}

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_ERROR;

  std::map<std::string, std::string> option = {
      {"linear-solver", "sparse_schur"}, {"preconditioner", ""}, {"jacobian", "analytic"}, {"error", "ray"},
      {"rotation", "quaternion"},
      {"dense-library", "eigen"}, {"loss", "trivial"}, {"loss-radius", "32"}, {"iterations", "40"},
      {"max-seconds", "1e9"}, {"threads", "1"}, {"initial-radius", "1e4"}, {"eta", "0.1"}};
  std::map<std::string, bool> flag = {{"explicit-schur", false}, {"inner-iterations", false}, {"check", false}};
  std::string path;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i], name = arg.rfind("--", 0) == 0 ? arg.substr(2) : "";
    if (arg == "--help" || arg == "-h") {
      std::cout << kUsage;
      return 0;
    } else if (flag.count(name)) {
      flag[name] = true;
    } else if (option.count(name)) {
      if (++i == argc) Fail(arg + " needs a value");
      option[name] = argv[i];
    } else if (name.empty() && path.empty() && (arg == "-" || arg[0] != '-')) {
      path = arg;
    } else {
      Fail("unknown argument " + arg + "\n" + kUsage);
    }
  }
  if (path.empty()) Fail(std::string("no file given\n") + kUsage);
  auto choose = [&option](const std::string& name, const std::vector<std::string>& values) {
    if (std::find(values.begin(), values.end(), option[name]) == values.end())
      Fail("bad value '" + option[name] + "' for --" + name);
    return option[name];
  };
  auto number = [&option](const std::string& name, double low, bool whole) {
    return ToNumber(name, option[name], low, whole);
  };
  const bool pixel = choose("error", {"ray", "pixel"}) == "pixel";
  const std::string jacobian = choose("jacobian", {"analytic", "auto", "auto3"});
  const bool quaternion = choose("rotation", {"quaternion", "angle_axis"}) == "quaternion";

  ceres::Solver::Options solver;
  const std::string linear_solver = choose(
      "linear-solver", {"dense_schur", "sparse_schur", "iterative_schur", "sparse_normal_cholesky", "cgnr"});
  ceres::StringToLinearSolverType(linear_solver, &solver.linear_solver_type);
  const bool iterative = linear_solver == "iterative_schur" || linear_solver == "cgnr";
  if (option["preconditioner"].empty()) option["preconditioner"] = linear_solver == "cgnr" ? "jacobi" : "schur_jacobi";
  ceres::StringToPreconditionerType(
      choose("preconditioner", {"identity", "jacobi", "schur_jacobi", "cluster_jacobi", "cluster_tridiagonal"}),
      &solver.preconditioner_type);
  if (linear_solver == "cgnr" && option["preconditioner"] != "jacobi" && option["preconditioner"] != "identity")
    Fail("cgnr takes the preconditioners identity and jacobi only");
  if (flag["explicit-schur"] && linear_solver != "iterative_schur") Fail("--explicit-schur needs iterative_schur");
  ceres::StringToDenseLinearAlgebraLibraryType(choose("dense-library", {"eigen", "lapack"}),
                                               &solver.dense_linear_algebra_library_type);
  solver.use_explicit_schur_complement = flag["explicit-schur"];
  solver.use_inner_iterations = flag["inner-iterations"];
  solver.num_threads = static_cast<int>(number("threads", 1, true));
  solver.max_num_iterations = static_cast<int>(number("iterations", 0, true));
  solver.max_solver_time_in_seconds = number("max-seconds", 0, false);
  solver.initial_trust_region_radius = number("initial-radius", 1e-12, false);
  solver.eta = number("eta", 0, false);
  solver.function_tolerance = solver.gradient_tolerance = solver.parameter_tolerance = 0;
  solver.logging_type = ceres::SILENT;

  const std::string loss_name = choose("loss", {"trivial", "huber", "softl1", "cauchy"});
  const double radius = number("loss-radius", 1e-9, false);
  ceres::LossFunction* loss = nullptr;
  if (loss_name == "huber") loss = new ceres::HuberLoss(radius);
  if (loss_name == "softl1") loss = new ceres::SoftLOneLoss(radius);
  if (loss_name == "cauchy") loss = new ceres::CauchyLoss(radius);

  Scene scene = ReadBal(path, quaternion, pixel);
  if (flag["check"]) return Check(scene, quaternion, pixel) ? 0 : 1;

  // Points are eliminated first; Ceres takes the cost functions, the loss and the manifold.
  const size_t stride = scene.stride, count = scene.observations.size();
  std::stable_sort(scene.observations.begin(), scene.observations.end(),
                   [](const Observation& a, const Observation& b) { return a.point < b.point; });
  ceres::Problem problem;
  ceres::Manifold* manifold = quaternion ? CameraManifold().release() : nullptr;
  auto ordering = std::make_shared<ceres::ParameterBlockOrdering>();
  for (const Observation& o : scene.observations) {
    double* camera = &scene.cameras[stride * o.camera];
    double* point = &scene.points[3 * size_t(o.point)];
    problem.AddResidualBlock(MakeCost(quaternion, pixel, jacobian, o), loss, camera, point);
    ordering->AddElementToGroup(point, 0);
    if (ordering->AddElementToGroup(camera, 1) && manifold && !problem.HasManifold(camera))
      problem.SetManifold(camera, manifold);
  }
  solver.linear_solver_ordering = ordering;
  if (solver.use_inner_iterations)
    solver.inner_iteration_ordering = std::make_shared<ceres::ParameterBlockOrdering>(*ordering);
  std::string error;
  if (!solver.IsValid(&error)) Fail(error);

  ceres::Solver::Summary summary;
  ceres::Solve(solver, &problem, &summary);

  std::ostringstream out;
  out.precision(12);
  out << "{\"cameras\": " << scene.num_cameras << ", \"points\": " << scene.num_points
      << ", \"observations\": " << count
      << ", \"error\": \"" << option["error"]
      << "\", \"loss\": \"" << loss_name << "\", \"loss_radius\": " << (loss ? option["loss-radius"] : "null")
      << ", \"linear_solver\": \"" << Lower(ceres::LinearSolverTypeToString(summary.linear_solver_type_used))
      << "\", \"preconditioner\": "
      << (iterative ? '"' + Lower(ceres::PreconditionerTypeToString(summary.preconditioner_type_used)) + '"' : "null")
      << ", \"explicit_schur\": " << (flag["explicit-schur"] ? "true" : "false")
      << ", \"inner_iterations\": " << (flag["inner-iterations"] ? "true" : "false")
      << ", \"jacobian\": \"" << jacobian << "\", \"rotation\": \"" << option["rotation"]
      << "\", \"threads\": " << summary.num_threads_used << ", \"ceres\": \"" << CERES_VERSION_STRING
      << "\", \"initial_objective\": " << summary.initial_cost << ", \"final_objective\": " << summary.final_cost
      << ", \"seconds\": " << summary.total_time_in_seconds
      << ", \"preprocessor_seconds\": " << summary.preprocessor_time_in_seconds
      << ", \"residual_seconds\": " << summary.residual_evaluation_time_in_seconds
      << ", \"jacobian_seconds\": " << summary.jacobian_evaluation_time_in_seconds
      << ", \"linear_solver_seconds\": " << summary.linear_solver_time_in_seconds;
  int linear_iterations = 0;
  double objective = summary.initial_cost;  // a rejected step keeps the objective of the last accepted one
  const char* separator = ", \"iterations\": [";
  for (const ceres::IterationSummary& it : summary.iterations) {
    if (it.step_is_successful) objective = it.cost;
    linear_iterations += it.linear_solver_iterations;
    out << separator << "{\"iteration\": " << it.iteration << ", \"seconds\": " << it.cumulative_time_in_seconds
        << ", \"objective\": " << objective << ", \"mean_objective\": " << objective / count
        << ", \"accepted\": " << (it.step_is_successful ? "true" : "false") << "}";
    separator = ", ";
  }
  if (summary.iterations.empty()) out << separator;
  std::string reason;
  for (const char c : summary.message) reason += c == '"' || c == '\\' || (c >= 0 && c < 32) ? ' ' : c;
  out << "], \"num_linear_solver\": {\"solves\": " << summary.num_linear_solves
      << ", \"iterations\": " << linear_iterations << "}, \"reason\": \"" << reason << "\"}";
  std::cout << out.str() << std::endl;
  return summary.termination_type == ceres::FAILURE ? 1 : 0;
}
